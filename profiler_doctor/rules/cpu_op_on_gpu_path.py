"""An op works on CPU tensors in the middle of a GPU's step, and the GPU has nothing to do in the meantime.

What it finds
    Ops that compute (element by element, products, sums, sorting, indexing, random numbers), run for more than 50 µs,
    make no call to the GPU, and stand between two launches of one step on the thread that launches, while the GPU is
    idle.

Why it costs
    The thread that computes is the one that feeds the GPU: while it works, nothing is launched, and the CPU is the
    slower one of the two. Often a tensor was just made without `device=`.

What to do
    Make the tensor where it is used: `torch.arange(n, device=x.device)`. What has to be computed on the CPU belongs
    before the step, or into the data loader's workers.

When not to
    Decisions that the program takes on the CPU anyway (schedules, sampling of indices), and work hidden behind a deep
    queue of kernels (no finding where the GPU is busy).

Source
    PyTorch's performance tuning guide, "create tensors directly on the target device"; RULES.md, PYB003.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.families import family_of
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.ops import inside_named, ops
from profiler_doctor.analyzer.measures.pointwise_costs import COMPARISONS, NAMES
from profiler_doctor.analyzer.measures.share import intervals_of
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_idle, linked_work, window
from profiler_doctor.analyzer.trace import Trace

COMPUTING = ("matmul", "convolution", "normalization", "reduction", "embedding and indexing", "random numbers")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such ops of the window."""
    span, table = window(trace), _between_launches(trace, int(limits["op_us"] * 1000))
    if span is None or not len(table):
        return
    large = [any(operand.size > 1 for operand in tensors(trace, row)) for row in table["row"].tolist()]
    table = table[np.array(large, np.bool_)]
    table = table.assign(idle_ns=_idle_ns(trace, table))
    table = table[2 * table["idle_ns"] > table["dur_ns"]]
    if not len(table):
        return
    rows = table["row"].tolist()
    idle, longest = int(table["idle_ns"].sum()), int(table.nlargest(1, "idle_ns")["row"].iloc[0])
    names = table.groupby("name", observed=True)["idle_ns"].sum().sort_values(ascending=False).index[:3]
    yield Sighting(
        message=f"{len(rows) / span.per:.3g} ops per {span.unit} "
        f"({', '.join(str(name).removeprefix('aten::') for name in names)}) run on the CPU while the GPU waits, for "
        f"{idle / span.per / 1e6:.3g} ms.",
        where=where_of(trace, longest),
        evidence={"ops": len(rows), "idle_ns": idle, "time_ns": int(table["dur_ns"].sum())},
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows, 0.0)),
        basis="these ops gone from the thread that launches",
    )


def _between_launches(trace: Trace, least_ns: int) -> pd.DataFrame:
    """Computing ops of the launching thread that make no call to a device, between its first and last launch."""
    work, span, table = linked_work(trace), window(trace), ops(trace)
    if span is None or not len(work):
        return table.iloc[:0]
    first, last = int(work["launch_start_ns"].min()), int(work["launch_start_ns"].max())
    table = table[(table["thread"] == span.thread) & table["is_op"] & (table["self_ns"] >= least_ns)]
    table = table[(table["start_ns"] > first) & (table["end_ns"] < last)]
    table = table[trace.events.matching_names(_computes)[trace.events.name[table["row"].to_numpy(np.int64)]]]
    calls = host_calls(trace)
    starts = np.sort(calls.loc[calls["thread"] == span.thread, "start_ns"].to_numpy())
    before, after = (np.searchsorted(starts, table[edge].to_numpy()) for edge in ("start_ns", "end_ns"))
    table = table[before == after]
    alone: pd.DataFrame = table[~inside_named(trace, table["row"].to_numpy(np.int64), LOADER.search)]
    return alone


def _computes(name: str) -> bool:
    own = name.removeprefix("aten::")
    pointwise = own.removesuffix("_") in NAMES | COMPARISONS and own != "clone"
    return own != name and (pointwise or family_of(name) in COMPUTING)


def _idle_ns(trace: Trace, table: pd.DataFrame) -> np.typing.NDArray[np.int64]:
    idle = linked_idle(trace)
    cover = union(idle["start_ns"].to_numpy(), idle["end_ns"].to_numpy())
    parts = Intervals(table["start_ns"].to_numpy(), table["end_ns"].to_numpy(), np.arange(len(table)))
    return covered_ns(parts, cover, len(table))


RULE = Rule(
    code="PYB003",
    name="cpu-op-on-gpu-path",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES),
    thresholds={"op_us": Threshold(50, "µs", "shorter ops are dispatch, whatever they do (RULES.md)")},
)
