"""Every step launches the same work, and could be launched as one graph.

What it finds
    Three or more steps in a row whose GPU work is the same, piece by piece: kernel names, grids, streams, sizes of
    copies and, where recorded, the shapes of the ops behind them. Between the first and the last launch of each nothing
    forbids a capture: no host wait, no pageable copy, no allocation from the driver. Steps that launch graphs already
    are not meant, nor those in which the GPU waits for the host for less than a tenth of its time.

Why it costs
    The host works out anew, op by op, what it worked out for the step before. One launch of a captured graph takes
    about 10 µs for any number of kernels, which then follow each other within a microsecond.

What to do
    `torch.cuda.make_graphed_callables(model, sample_inputs)`, `torch.cuda.graph` around the step with static input
    buffers, or `torch.compile(mode="reduce-overhead")`, which captures by itself.

When not to
    Where the GPU is the bottleneck the gain is next to nothing. A graph repeats the recorded values too: numbers that
    Python computes for each step (a learning rate, an index) must move into tensors, random generators must be
    registered, collectives need a communicator that supports capture. Compare outputs on fresh inputs before trusting
    it.

Source
    RULES.md, LCH003; CUDA's rules for stream capture. The stake is LCH001's as far as both speak of the same gaps, and
    the joint replay counts it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.collectives import collectives
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls, launching_threads
from profiler_doctor.analyzer.measures.ops import named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_time
from profiler_doctor.analyzer.trace import Trace

EVENT_WAIT = named(r"EventSynchronize")
HOST_CAUSES = ("op_dispatch", "launch_latency", "python")
FIXED = ("row", "op", "step", "device", "stream", "launch_start_ns", "bytes")
"""Columns of the work that say what a graph would fix."""
RANDOM = named(r"philox|dropout|distribution_|random|bernoulli")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: the longest row of equal steps."""
    if linked_time(trace).share(*HOST_CAUSES) < limits["host_share"]:
        return
    work = gpu_work(trace)
    columns = ["row", "name", "kind", "device", "stream", "end_ns", "launch_start_ns", "op", "step", "bytes"]
    work = work.loc[(work["launch"] >= 0) & (work["step"] >= 0), columns]
    open_steps = _capturable(trace, work, int(limits["event_wait_us"] * 1000))
    row = _longest_row(trace, work.loc[work["step"].isin(open_steps), list(FIXED)])
    one = work[work["step"] == row[-1]] if row else work[:0]
    kernels = one.loc[one["kind"] == "kernel", "name"].astype(str)
    if not len(one) or len(row) < limits["steps"] or len(kernels) < limits["kernels"]:
        return
    spans = work.loc[work["step"].isin(row), ["step", "launch_start_ns", "end_ns"]].groupby("step")
    yield Sighting(
        message=f"{len(row)} steps in a row launch the same {len(kernels)} kernels, with nothing between them that a "
        "graph could not hold.",
        where=where_of(trace, int(one["op"].iloc[int(one["launch_start_ns"].argmin())])),
        evidence={
            "steps": len(row),
            "kernels": len(kernels),
            "work": len(one),
            "streams": int(one["stream"].nunique()),
            "random_kernels": _count(kernels, RANDOM),
            "collectives": int(collectives(trace)["row"].isin(one["row"]).sum()),
            "shapes_compared": Has.SHAPES in trace.has,
        },
        intervals_ns=places(spans.agg(start_ns=("launch_start_ns", "min"), end_ns=("end_ns", "max"))),
        edit=Edit(no_launch_gaps=True),
        basis="the step as one graph",
    )


def _count(names: pd.Series[str], test: Callable[[str], object]) -> int:
    return sum(count for name, count in names.value_counts().items() if test(str(name)))


def _capturable(trace: Trace, work: pd.DataFrame, event_wait_ns: int) -> set[int]:
    """Steps without a call between their first and last launch that a capture forbids, or that is one already.

    Events that were over long ago (a reducer's timers, an allocator's marks) return at once, and stand in no way.
    """
    by_step = work.groupby("step")["launch_start_ns"]
    first, last = by_step.min(), by_step.max()
    every, moved = host_calls(trace), copies(trace)
    forbidden = every["kind"].isin(("blocking", "alloc", "graph_launch")).to_numpy()
    forbidden = forbidden | every["row"].isin(moved.loc[moved["pageable"], "launch"]).to_numpy()
    calls = every[forbidden & every["thread"].isin(launching_threads(trace)).to_numpy()]
    calls = calls[(calls["dur_ns"] > event_wait_ns) | calls["name"].map(EVENT_WAIT).isna().to_numpy(np.bool_)]
    inside = (calls["start_ns"] > calls["step"].map(first)) & (calls["start_ns"] <= calls["step"].map(last))
    graphs = calls["kind"] == "graph_launch"
    return set(first.index.tolist()) - set(calls.loc[inside | graphs, "step"].tolist())


def _longest_row(trace: Trace, work: pd.DataFrame) -> list[int]:
    """The longest run of consecutive steps whose work is equal, stream by stream in the order of the launches."""
    keys = [work[name].to_numpy() for name in ("launch_start_ns", "stream", "device", "step")]
    in_order = work.iloc[np.lexsort(keys)]
    all_work, step = _fingerprint(trace, in_order), in_order["step"].to_numpy(np.int64)
    first = np.flatnonzero(np.diff(step, prepend=-1))
    each = dict(zip(step[first].tolist(), np.split(all_work, first[1:], axis=1), strict=True)) if len(first) else {}
    row, longest = list(each)[:1], list(each)[:1]
    for before, after in pairwise(each):
        same = after == before + 1 and np.array_equal(each[before], each[after])
        row = [*row, after] if same else [after]
        longest = max(longest, row, key=len)
    return longest


def _fingerprint(trace: Trace, work: pd.DataFrame) -> npt.NDArray[np.int64]:
    """What a graph would fix of each piece of work, one piece a column."""
    rows, op = work["row"].to_numpy(np.int64), work["op"].to_numpy(np.int64)
    text = trace.events.text
    shapes = np.where(op >= 0, text("Input Dims").at(np.maximum(op, 0), -1), -1)
    parts = [trace.events.name[rows].astype(np.int64), text("grid").at(rows, -1), shapes]
    return np.stack([*parts, *(work[name].to_numpy(np.int64) for name in ("device", "stream", "bytes"))])


RULE = Rule(
    code="LCH003",
    name="graph-capturable-step",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.STEPS),
    thresholds={
        "host_share": Threshold(
            0.10, "share of the device's span", "where the GPU waits less for launches, no headline"
        ),
        "steps": Threshold(3, "steps in a row", "two may be equal by chance of a warm-up (RULES.md)"),
        "kernels": Threshold(10, "kernels per step", "a step of fewer launches has little to win"),
        "event_wait_us": Threshold(50, "µs", "an event that is over returns within a few microseconds"),
    },
)
