"""The recorded steps still hold start-up work, so they do not show the steady state.

What it finds
    Allocations of device memory, loading of modules and libraries, lazy loading of kernels, compilation, and launches
    that take a millisecond or more while the device idles: together 5 % or more of the recorded window. Or a first
    step that takes more than 1.5 times as long as the later ones.

Why it costs
    It does not: start-up is paid once. But shares and idle times that hold it say nothing of the thousand steps after.

What to do
    Record later: warm up until three steps in a row take the same time to within 5 %, then record.

When not to
    When the start-up itself is what you want to shorten. Work of this kind that comes back in every step is no start-up
    but an illness of its own, and is not named here.

Source
    RULES.md, MSR001. Where it is grave, no launch-bound finding (LCH) is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, gaps, shared, union
from profiler_doctor.analyzer.measures.ops import named
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import STEPS_TO_SPARE, used_steps, window
from profiler_doctor.analyzer.trace import HOST_CALLS, Ints, Trace

LOADS = named(r"^(cuInit|hipInit)$", r"(Module|Library)Load", r"StreamCreate", r"DeviceGetStreamPriorityRange")
LOOKS_UP = named(r"GetDevicePointer")
"""Of the calls that deal with memory, those that only ask."""
LAZY = named(r"Lazy Function Loading")
COMPILES = named(r"\(dynamo_timed\)", r"entire_frame_compile|inductor_compile|compile_fx_inner|_compile\.compile_inner")
SLOW_LAUNCH_NS = 1_000_000


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One note on start-up work, one on a slow first step."""
    yield from _start_up(trace, limits["cold_share"])
    yield from _slow_first_step(trace, limits["first_step_ratio"])


def _start_up(trace: Trace, limit: float) -> Iterator[Sighting]:
    stretches = _judged(trace)
    rows = _cold_rows(trace)
    cold = union(trace.events.start_ns[rows], trace.events.ends_at(rows))
    if not len(stretches) or not len(cold):
        return
    spent = covered_ns(stretches, cold, len(stretches))
    length = stretches.ends - stretches.starts
    share, last = spent.sum() / length.sum(), spent[-1] / length[-1]
    if share < limit or (len(stretches) > 1 and last >= share / 2):  # it comes back in every step: no start-up
        return
    allocations = _allocations(trace)
    taken = int(allocations["dur_ns"].sum())
    among = f" (among it {len(allocations)} allocations, {taken / 1e9:.3g} s)" if len(allocations) else ""
    yield Sighting(
        message=f"{share:.0%} of the recorded time is start-up work{among}: the trace was taken before the program was "
        "warm.",
        evidence={
            "events": len(rows),
            "cold_share": round(float(share), 6),
            "allocations": len(allocations),
            "allocation_ns": taken,
        },
        intervals_ns=tuple(zip(cold.starts.tolist(), cold.ends.tolist(), strict=True))[:200],
    )


def _slow_first_step(trace: Trace, ratio: float) -> Iterator[Sighting]:
    """The first step against the median of the rest; grave where it is among the steps that are judged."""
    table, used = steps(trace), used_steps(trace)
    for judged, grave in ((used, True), (table, len(table) < STEPS_TO_SPARE)):
        if len(judged) < 2:
            continue
        first, rest = int(judged["dur_ns"].iloc[0]), float(judged["dur_ns"].iloc[1:].median())
        if first > ratio * rest:
            yield Sighting(
                message=f"{judged['name'].iloc[0]} takes {first / max(rest, 1):.3g} times as long as the later steps"
                + ("." if grave else ", and is left out."),
                evidence={"events": 1, "first_ns": first, "rest_ns": int(rest)},
                grave=grave,
            )
            return


def _judged(trace: Trace) -> Intervals:
    """The steps that are judged, or all that was recorded where none are marked."""
    used, span = used_steps(trace), window(trace)
    if len(used):
        return Intervals(used["start_ns"].to_numpy(), used["end_ns"].to_numpy(), np.arange(len(used)))
    if span is None:
        nothing = np.empty(0, np.int64)
        return Intervals(nothing, nothing, nothing)
    return Intervals(np.array([span.start_ns]), np.array([span.end_ns]), np.array([0]))


def _cold_rows(trace: Trace) -> Ints:
    calls = host_calls(trace)
    allocations = calls.loc[calls["kind"] == "alloc", "row"].to_numpy(np.int64)
    loads = np.union1d(allocations, trace.rows_named(LOADS, HOST_CALLS))
    compiles = trace.rows_named(COMPILES, ("cpu_op", "user_annotation"))
    return np.concatenate((loads, trace.rows_named(LAZY, ("overhead",)), compiles, _slow_launches(trace, calls)))


def _slow_launches(trace: Trace, calls: pd.DataFrame) -> Ints:
    """Launches that load what they launch: long ones, with the device idle meanwhile (a full queue makes it busy)."""
    work = gpu_work(trace)
    slow = calls[calls["dur_ns"] > SLOW_LAUNCH_NS]
    slow = slow[(slow["work"] > 0) & slow["kind"].isin(("launch", "graph_launch"))]
    parts = Intervals(slow["start_ns"].to_numpy(), slow["end_ns"].to_numpy(), np.arange(len(slow)))
    if not len(slow):
        return slow["row"].to_numpy(np.int64)
    ends = np.append(work["end_ns"].to_numpy(), parts.starts.min())
    idle = shared(parts, gaps(np.append(work["start_ns"].to_numpy(), parts.starts.min()), ends))
    idle_ns = np.bincount(idle.owner, weights=idle.ends - idle.starts, minlength=len(slow))
    chosen = idle_ns > 0.9 * slow["dur_ns"].to_numpy()
    rows: Ints = slow["row"].to_numpy(np.int64)[chosen]
    return rows


def _allocations(trace: Trace) -> pd.DataFrame:
    """Allocations and frees in the judged steps; in the whole trace where no steps are marked."""
    calls = host_calls(trace)
    calls = calls[calls["kind"] == "alloc"]
    calls = calls[calls["name"].map(LOOKS_UP).isna()]
    return calls[calls["step"].isin(used_steps(trace).index)] if len(used_steps(trace)) else calls


RULE = Rule(
    code="MSR001",
    name="not-warm",
    doc=__doc__,
    find=find,
    thresholds={
        "cold_share": Threshold(0.05, "share of the judged time", "half of what LCH001 needs to speak"),
        "first_step_ratio": Threshold(1.5, "times the median of later steps", "RULES.md; steady steps vary less"),
    },
    vetoes=("LCH",),
)
