"""The GPU waits for the program to hand it work.

What it finds
    The device idles for a tenth of its time or more while the host works out what to launch next (the dispatch of ops,
    the way of a launch to the device, Python between ops), and it is busy for less than 85 % of the time. Time that the
    host spends in blocking calls, allocations or the data loader is counted elsewhere.

Why it costs
    A launch takes the host several microseconds, and the ops and Python around it tens. When kernels are shorter than
    that, the device runs dry after each one, and a faster GPU changes nothing.

What to do
    Launch less often: compile the model (`torch.compile(mode="reduce-overhead")` replays the step as one CUDA graph),
    or capture it with `torch.cuda.make_graphed_callables`. Where latency is not the point, a larger batch gives every
    launch more to do.

When not to
    A recording with Python stacks or shapes inflates the host's time: compare with the un-profiled step first. A step
    that allocates, synchronizes or changes shapes cannot become one graph before that is cured. Nothing is said where
    the device waited for work that the trace does not hold (MSR003), or where the program was not warm yet (MSR001).

Source
    RULES.md, LCH001; the shares are those of the exclusive idle partition. Other tools warn from 15 % idle on.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import busy, gpu_work
from profiler_doctor.analyzer.measures.places import MOST, places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_idle, linked_time, linked_work, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

HOST_CAUSES = ("op_dispatch", "launch_latency", "python")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for the whole window."""
    time, kernels = linked_time(trace), len(linked_work(trace))
    by_host, busiest = time.share(*HOST_CAUSES), max(time.busy_share, _unprofiled_busy_share(trace))
    if not by_host or kernels < limits["work"] or by_host < limits["host_share"] or busiest >= limits["busy_share"]:
        return
    devices, gaps = busy(trace), _by_host(trace)
    yield Sighting(
        message=f"The GPU is busy for {time.busy_share:.1%} of its time; for {by_host:.1%} it waits for the host to "
        f"launch {kernels} pieces of work.",
        where=_where(trace, gaps),
        evidence={
            "busy_share": round(float(devices["busy_ns"].sum() / devices["span_ns"].sum()), 6),
            "window_busy_share": round(time.busy_share, 6),
            "host_share": round(by_host, 6),
            "span_ns": time.span_ns,
            "idle_by_cause": time.idle_by_cause,
            "work": kernels,
        },
        intervals_ns=places(_longest(gaps)),
        edit=Edit(no_launch_gaps=True),
        basis="the step as one graph",
    )


def _unprofiled_busy_share(trace: Trace) -> float:
    """Busy time of a step over the un-profiled step, where it was timed: a profiler slows the host, not the device."""
    times, span = trace.facts.step_ns if trace.facts else (), window(trace)
    if not times or span is None:
        return 0.0
    return linked_time(trace).busy_ns / span.per / median(times)


def _by_host(trace: Trace) -> pd.DataFrame:
    """The pieces of idle time that the host causes."""
    gaps = linked_idle(trace)
    return gaps.loc[gaps["cause"].isin(HOST_CAUSES), ["start_ns", "end_ns", "dur_ns", "ended_by"]]


def _longest(gaps: pd.DataFrame) -> pd.DataFrame:
    """As many of them as a finding shows, the longest first."""
    long = gaps["dur_ns"].to_numpy()
    if len(long) > MOST:
        gaps = gaps[long >= np.partition(long, -MOST)[-MOST]]
    return gaps.sort_values("dur_ns", ascending=False, kind="stable").head(MOST)


def _where(trace: Trace, gaps: pd.DataFrame) -> Where:
    """The op after whose launch the longest waiting came together."""
    work, waited_ns = gpu_work(trace), gaps.groupby("ended_by", sort=False)["dur_ns"].sum()
    longest = int(waited_ns.index[waited_ns == waited_ns.max()].min())
    return where_of(trace, int(work["op"].to_numpy()[work["row"].to_numpy() == longest][0]))


RULE = Rule(
    code="LCH001",
    name="host-bound-launch",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={
        "host_share": Threshold(0.10, "share of the device's span", "below, launch gaps are no headline (RULES.md)"),
        "busy_share": Threshold(0.85, "share of the device's span", "a device this busy is not starved by launches"),
        "work": Threshold(10, "pieces of linked GPU work", "fewer are a start-up or a fragment, no steady state"),
    },
)
