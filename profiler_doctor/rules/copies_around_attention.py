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
from profiler_doctor.analyzer.measures.attention_copies import attention_copies
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.sdpa import sdpas
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all calls of the window."""
    around, span = attention_copies(trace), window(trace)
    copies = [row for rows in around.values() for row in rows]
    attention = sum(call.time_ns for call in sdpas(trace) if call.row in around)
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
            "copies_per_call": round(len(copies) / len(around), 3),
            "time_ns": time,
            "attention_ns": attention,
            "share": part,
        },
        intervals_ns=intervals_of(trace, copies),
        edit=Edit(keep=dict.fromkeys(copies, 0.0)),
        basis="the copies gone",
    )


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
