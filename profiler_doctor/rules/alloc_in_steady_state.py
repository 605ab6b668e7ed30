"""Memory is still being asked of the driver long after the program is warm.

What it finds
    Allocations and frees of the driver (`cudaMalloc`, `cudaFree`, `cudaHostAlloc`, `hipMalloc`, `cuMem*`) on a
    thread that launches work, in two or more steps after the first one and in at least half of them.

Why it costs
    PyTorch keeps the memory it has got, so a warm program asks for none. Each such call takes from tens of microseconds
    to milliseconds, and `cudaFree` waits until the device is idle.

What to do
    Remove `torch.cuda.empty_cache()` from the loop. Where shapes vary, warm up with the largest one, or set
    `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, which fits new sizes into old blocks. Pin host buffers once and
    use them again.

When not to
    The first steps, workspaces of libraries and the capture of a graph allocate once; a step that captures is left out.
    A program at the edge of its memory (MEM002) frees because it has to.

Source
    RULES.md, MEM001. At stake is what the replay gains when these calls return at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.host import host_calls, launching_threads
from profiler_doctor.analyzer.measures.ops import named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import HOST_CALLS, Trace

LOOKS_UP = named(r"GetDevicePointer|GetAddressRange|MemGetInfo")
"""Of the calls that deal with memory, those that only ask."""
CAPTURES = named(r"BeginCapture")
FREES = named(r"Free")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all steps after the first."""
    span, calls = window(trace), host_calls(trace)
    if span is None:
        return
    captured = calls.loc[calls["row"].isin(trace.rows_named(CAPTURES, HOST_CALLS)), "step"]
    warm = set(range(1, len(steps(trace)))) - set(captured.tolist())
    table = _allocations(calls, launching_threads(trace))
    table = table[table["step"].isin(warm)]
    touched, taken = table["step"].nunique(), int(table["dur_ns"].sum())
    steady = touched >= limits["steps"] and touched >= limits["share_of_steps"] * len(warm)
    if not len(table) or not steady or taken < limits["time_share"] * span.span_ns:
        return
    longest = table.nlargest(1, "dur_ns").iloc[0]
    place, frees = where_of(trace, int(longest["op"])), int(table["name"].map(FREES).notna().sum())
    yield Sighting(
        message=f"{len(table) / touched:.3g} calls per step ask the driver for memory or give it back, "
        f"{taken / touched / 1e6:.3g} ms a step, in {touched} of {len(warm)} warm steps.",
        where=place if place.op else Where(op=str(longest["name"])),
        evidence={
            "calls": table["name"].astype(str).value_counts().to_dict(),
            "frees": frees,
            "time_ns": taken,
            "steps": touched,
        },
        intervals_ns=places(table),
        edit=Edit(free=tuple(table["row"].tolist())),
        basis="no memory asked of the driver",
    )


def _allocations(calls: pd.DataFrame, launching: list[int]) -> pd.DataFrame:
    """Calls that allocate or free on threads that launch work."""
    table = calls[calls["kind"] == "alloc"]
    return table[table["thread"].isin(launching).to_numpy() & table["name"].map(LOOKS_UP).isna().to_numpy()]


RULE = Rule(
    code="MEM001",
    name="alloc-in-steady-state",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.STEPS),
    thresholds={
        "steps": Threshold(2, "warm steps", "what happens once may be a workspace"),
        "share_of_steps": Threshold(0.5, "share of the warm steps", "growth now and then is no steady state"),
        "time_share": Threshold(0.005, "share of the window", "less is within the error of any estimate"),
    },
)
