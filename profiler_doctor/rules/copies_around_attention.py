"""Queries, keys and values are copied into another order before attention, which would take them as they are.

What it finds
    Copies (`contiguous`, `clone`, a `reshape` that copies) of tensors as large as the queries, keys or values, between
    the products that make them and the call of scaled_dot_product_attention, and of its result before the next product,
    that take more than a tenth of the time of attention itself. The innermost axis must lie in order already.

Why it costs
    Fused attention reads its inputs by strides: a transposed view costs nothing. A copy reads and writes the whole
    tensor, and for short sequences takes as long as attention.

What to do
    Leave `.contiguous()` away: `q.view(B, T, H, D).transpose(1, 2)` is enough. For heads that share keys and values
    pass `enable_gqa=True` in place of repeating them. The result then has the order that the next product wants.

When not to
    Some kernels of other libraries, and old versions of the memory-efficient kernel with a mask, do ask for contiguous
    tensors.

Source
    PyTorch's documentation of scaled_dot_product_attention; RULES.md, ATT003.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.sdpa import Sdpa, sdpas
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

BEFORE, AFTER = 6, 2
"""Ops to look at: three tensors, each maybe repeated and copied; and the result."""
COPY, PRODUCT = "k", "L"


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all calls of the window."""
    calls, span = sdpas(trace), window(trace)
    around = {call.row: _copies(trace, call) for call in calls}
    copies = [row for rows in around.values() for row in rows]
    attention = sum(call.time_ns for call in calls if around[call.row])
    time = _time_ns(trace, copies)
    if not copies or span is None or time < limits["of_attention"] * attention:
        return
    part = share(trace, copies)
    yield Sighting(
        message=f"Copies around attention, {len(copies) / span.per:.3g} per {span.unit}, take {part:.1%} of "
        f"{whole(trace)}, {time / max(attention, 1):.0%} of the time of attention itself.",
        where=where_of(trace, copies[0]),
        evidence={
            "copies": len(copies),
            "copies_per_call": round(len(copies) / sum(bool(rows) for rows in around.values()), 3),
            "time_ns": time,
            "attention_ns": attention,
            "share": part,
        },
        intervals_ns=intervals_of(trace, copies),
        edit=Edit(keep=dict.fromkeys(copies, 0.0)),
        basis="the copies gone",
    )


def _copies(trace: Trace, call: Sdpa) -> list[int]:
    """Those before the call back to the last product; and, only if there are any, of the result."""
    called = sequence(trace)
    place = int(called.owner[call.row])
    if place < 0 or int(called.rows[place]) != call.row:
        return []
    sizes = {call.query.size, call.key.size, call.value.size}
    before = _towards_product(trace, range(place - 1, max(place - 1 - BEFORE, -1), -1), sizes)
    result = call.query.size // call.query.dims[-1] * call.value.dims[-1]
    after = _towards_product(trace, range(place + 1, min(place + 1 + AFTER, len(called.rows))), {result})
    return [*before[::-1], *after] if before else []


def _towards_product(trace: Trace, places: range, sizes: set[int]) -> list[int]:
    called, found = sequence(trace), []
    for place in places:
        if called.letters[place] == PRODUCT:
            break
        row = int(called.rows[place])
        given = tensors(trace, row)
        if called.letters[place] == COPY and given and given[0].size in sizes:
            in_order = given[0].strides is None or given[0].strides[-1] == 1
            found += [row] if in_order else []
    return found


def _time_ns(trace: Trace, rows: list[int]) -> int:
    work = linked_work(trace)
    if not len(work):
        return int(trace.events.dur_ns[np.array(rows, np.int64)].sum())
    around = enclosing(trace, work["op"].to_numpy(np.int64), np.array(rows, np.int64))
    return int(work["dur_ns"].to_numpy()[around >= 0].sum())


RULE = Rule(
    code="ATT003",
    name="copies-around-attention",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={
        "of_attention": Threshold(0.10, "share of attention's time", "less is lost in its own noise (RULES.md)")
    },
)
