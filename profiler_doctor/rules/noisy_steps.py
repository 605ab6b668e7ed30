"""The steps differ so much from each other that small differences between two runs mean nothing.

What it finds
    Warm steps whose median distance from their median is more than 5 % of it, or one in twenty of which takes more
    than 1.5 times as long (of fewer than twenty recorded steps: any). Un-profiled steps are judged where our own
    capture timed them. And GPU work that seems to begin before it was launched: the two clocks do not agree.

Why it costs
    It does not. But a gain smaller than the noise cannot be seen in two runs, and where the clocks disagree the time
    between launch and work is not to be believed.

What to do
    Time more steps, leave the machine alone meanwhile, let both versions take turns (`profiler-doctor verify` does),
    and where you may, fix the clock rates (`nvidia-smi --lock-gpu-clocks`).

When not to
    Where the steps do different work, as with inputs of many lengths: then the spread is the program's own.

Source
    RULES.md, MSR007; the median absolute deviation is the spread that single outliers do not move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.kinds import Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.trace import Trace

LEAST_STEPS = 3
"""Fewer have no spread."""
MANY = 20
"""Of so many steps a single slow one is nothing unusual."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A note on the spread, and one on the clocks."""
    yield from _spread(trace, limits)
    yield from _clocks(trace, limits["early_share"])


def _spread(trace: Trace, limits: Limits) -> Iterator[Sighting]:
    times, timed = _times(trace)
    if len(times) < LEAST_STEPS:
        return
    middle = float(np.median(times))
    spread = float(np.median(np.abs(times - middle))) / middle if middle else 0.0
    slow = int((times > limits["slow_ratio"] * middle).sum())
    allowed = len(times) // MANY
    if spread <= limits["spread"] and slow <= allowed:
        return
    signs = [f"they scatter by {spread:.0%} of their median"] if spread > limits["spread"] else []
    signs += [f"{slow} take more than {limits['slow_ratio']:g} times the median"] if slow > allowed else []
    yield Sighting(
        message=f"The steps are noisy: of {len(times)} {timed} ones {' and '.join(signs)}. Compare runs by many steps.",
        evidence={"events": len(times), "spread": round(spread, 6), "slow_steps": slow},
        grave=False,
    )


def _times(trace: Trace) -> tuple[npt.NDArray[np.float64], str]:
    """Un-profiled step times where there are some, else those of the recording without its first one."""
    facts = trace.facts
    if facts is not None and len(facts.step_ns) >= LEAST_STEPS:
        return np.array(facts.step_ns, np.float64), "un-profiled"
    table = used_steps(trace)
    whole = table.iloc[:-1] if len(table) and _cut(trace) else table
    return whole["dur_ns"].to_numpy(np.float64), "recorded"


def _cut(trace: Trace) -> bool:
    """Whether the last step ends with its mark long before its work would: it is shorter for that alone."""
    table = steps(trace)
    marks = (table["mark_end_ns"] - table["start_ns"]).to_numpy()
    return len(table) > 1 and bool(np.median(marks[:-1]) < 0.9 * np.median(table["dur_ns"].to_numpy()[:-1]))


def _clocks(trace: Trace, share: float) -> Iterator[Sighting]:
    work = gpu_work(trace)
    linked = work[work["launch"] >= 0]
    early = linked[linked["start_ns"] < linked["launch_start_ns"]]
    if len(linked) and len(early) > share * len(linked):
        most = int((early["launch_start_ns"] - early["start_ns"]).max())
        yield Sighting(
            message=f"{len(early)} of {len(linked)} pieces of GPU work begin before their launch, by up to "
            f"{most / 1000:.3g} µs: the clocks of host and GPU do not agree, so launch gaps are not to be believed.",
            evidence={"events": len(early), "early_ns": most},
            intervals_ns=places(early),
        )


RULE = Rule(
    code="MSR007",
    name="noisy-steps",
    doc=__doc__,
    find=find,
    thresholds={
        "spread": Threshold(0.05, "of the median step (MAD)", "RULES.md; quiet machines stay below 2 %"),
        "slow_ratio": Threshold(1.5, "times the median", "RULES.md; the same as for a first step that is not warm"),
        "early_share": Threshold(0.01, "of the linked GPU work", "single events may be off by the clocks' resolution"),
    },
    vetoes=("LCH",),
)
