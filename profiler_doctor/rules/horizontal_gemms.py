"""The same tensor is multiplied with one weight after the other, where one product with all of them would do.

What it finds
    Two or more linear layers in a row that are given the very same tensor, which only our own recording can tell (a
    trace has shapes alone), with nothing computed in between, on a GPU.

Why it costs
    Each product is a launch, reads the whole input again, and a narrow one leaves parts of the GPU without work. The
    queries, keys and values of attention are the usual case.

What to do
    One layer as wide as all of them, and `split` its result: `nn.Linear(d, q + k + v)`. For a trained model put the
    weights together once: `torch.cat([q.weight, k.weight, v.weight])`.

When not to
    Where the layers are sharded over devices, quantized or adapted (LoRA) apart. Wide products that keep the GPU busy
    gain little: what is claimed here is the launches and the reading, not the arithmetic.

Source
    Shoeybi et al. 2019 (Megatron-LM, fused QKV); RULES.md, FUS006.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.element_types import peak_name, width
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.products import peak_at, products
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.measures.share import rows_in_window, share
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

Group = tuple[int, ...]


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all groups of the window."""
    groups, span = _groups(trace), window(trace)
    rows = [row for group in groups for row in group]
    work = linked_work(trace)
    work = work.assign(linear=enclosing(trace, work["op"].to_numpy(np.int64), np.array(rows, np.int64)))
    work = work[work["linear"] >= 0]
    if not rows or span is None or not len(work):
        return
    most = max(groups, key=len)
    yield Sighting(
        message=f"{len(rows) / span.per:.3g} linear layers per {span.unit} could be {len(groups) / span.per:.3g}: up "
        f"to {len(most)} in a row are given the same tensor ({share(trace, rows):.1%} of the GPU's work).",
        where=where_of(trace, most[0]),
        evidence={
            "groups": len(groups),
            "layers": len(rows),
            "time_ns": int(work["dur_ns"].sum()),
            "input": list(tensors(trace, most[0])[0].dims),
            "weights": [list(tensors(trace, row)[1].dims) for row in most],
            "share": share(trace, rows),
        },
        intervals_ns=places(work),
        edit=_edit(trace, groups, work),
        basis="one launch for each group, and its input read once",
    )


def _groups(trace: Trace) -> list[Group]:
    """Linear layers of the window that share an input and stand side by side."""
    called, seen = sequence(trace), trace.facts.shared_inputs if trace.facts else ()
    rows = rows_in_window(trace, trace.rows_named("aten::linear".__eq__, ("cpu_op",)))
    row_at = dict(zip((trace.events.start_ns[rows] + trace.base_ns).tolist(), rows.tolist(), strict=True))
    found: list[Group] = []
    for starts in seen:
        group: Group = ()
        for row in (row_at[start] for start in starts if start in row_at):
            beside = group and int(called.owner[row]) == int(called.owner[group[-1]]) + 1
            found += [] if beside or len(group) < 2 else [group]
            group = (*group, row) if beside else (row,)
        found += [group] if len(group) > 1 else []
    return [group for group in found if all(len(tensors(trace, row)) > 1 for row in group)]


def _edit(trace: Trace, groups: list[Group], work: pd.DataFrame) -> Edit:
    """All layers of a group but the first lose their launch, and all shrink by what need not be read again."""
    later = {row for group in groups for row in group[1:]}
    stays = {row: _stays(trace, group, work) for group in groups for row in group}
    pairs = list(zip(work["row"].tolist(), work["linear"].tolist(), strict=True))
    keep = {row: stays[linear] for row, linear in pairs if stays[linear] < 1}
    return Edit(keep=keep, joined=tuple(row for row, linear in pairs if linear in later))


def _stays(trace: Trace, group: Group, work: pd.DataFrame) -> float:
    """Time of one product over the time of all, at the peaks; 1 where those or the costs are not known."""
    table, peak = products(trace), peak_at(trace, int(work["device"].iloc[0]))
    inner = enclosing(trace, table["op"].to_numpy(np.int64), np.array(group, np.int64))
    mine, given = table[inner >= 0], tensors(trace, group[0])[0]
    if peak is None or len(mine) != len(group) or (mine["flops"] < 0).any():
        return 1.0
    again = given.size * (width(given.type) or 0) * (len(group) - 1)
    whole = pd.DataFrame({"flops": [mine["flops"].sum()], "bytes": [mine["bytes"].sum() - again]})
    kind = peak_name(given.type)
    rate = peak.flops_per_s(kind, products=True)
    if not rate:
        return 1.0
    single = np.maximum(mine["flops"] / rate, mine["bytes"] / peak.bytes_per_s).sum()
    merged = np.maximum(whole["flops"] / rate, whole["bytes"] / peak.bytes_per_s).sum()
    return min(float(merged / single), 1.0) if single else 1.0


RULE = Rule(
    code="FUS006",
    name="horizontal-gemms",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES, Has.CAPTURE),
)
