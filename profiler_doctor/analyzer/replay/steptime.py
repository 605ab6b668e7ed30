"""A stake in terms of the un-profiled step, where our own capture has timed it."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from profiler_doctor.analyzer.model import Stake
from profiler_doctor.analyzer.trace import Trace


def per_step(trace: Trace, stake: Stake, least_ns: int = 0) -> Stake:
    """The same share, of the un-profiled step; the profiler's own time is not the user's to win.

    `least_ns` of GPU work per step stays whatever is cured, and no profiler makes it longer: the host time that a
    profiler adds may not be counted against it.
    """
    times = trace.facts.step_ns if trace.facts else ()
    if not times or stake.share is None:
        return stake
    step = int(median(times))
    gain = min(int(stake.share * step), max(step - least_ns, 0))
    return replace(stake, ns_per_step=gain, share=gain / step, basis=f"{stake.basis}; scaled to the un-profiled step")
