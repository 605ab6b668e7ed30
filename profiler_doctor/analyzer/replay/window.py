"""The part of a recording that is played again: whole steps where there are any, else everything that is linked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.trace import HOST_CALLS, Ints, Trace, measure

STEPS_TO_SPARE = 3
"""From so many steps on the first one is left out: it pays for what later ones reuse (RULES.md, "Window")."""


@dataclass(frozen=True)
class Window:
    """One stretch of recorded time. `steps` is 0 where none are marked; `thread` is the code of the step's thread."""

    start_ns: int
    end_ns: int
    steps: int
    thread: int

    @property
    def span_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns

    @property
    def words(self) -> str:
        """What was replayed, for a stake's basis."""
        if not self.steps:
            return "the whole recorded window, as no steps are marked"
        return f"{self.steps} recorded step{'s' if self.steps > 1 else ''}"


@measure
def window(trace: Trace) -> Window | None:
    """The stretch to replay; None where nothing was recorded that has a length."""
    table = steps(trace)
    if len(table):
        used = table.iloc[1:] if len(table) >= STEPS_TO_SPARE else table
        return Window(int(used["start_ns"].min()), int(used["end_ns"].max()), len(used), int(used["thread"].iloc[0]))
    work = gpu_work(trace)
    linked = work[work["launch"] >= 0]
    if len(linked):
        return _from_launches(trace, linked["launch"].to_numpy(), int(linked["end_ns"].max()))
    return _from_ops(trace, trace.rows("cpu_op"))


def _from_launches(trace: Trace, launches: Ints, gpu_end_ns: int) -> Window:
    calls = trace.rows(*HOST_CALLS)
    start = int(trace.events.start_ns[launches].min())
    end = max(gpu_end_ns, int(trace.events.end_ns[calls].max()))
    return Window(start, end, 0, int(np.bincount(trace.events.thread[launches]).argmax()))


def _from_ops(trace: Trace, ops: Ints) -> Window | None:
    if not len(ops):
        return None
    thread = int(np.bincount(trace.events.thread[ops], weights=trace.events.dur_ns[ops]).argmax())
    own = ops[trace.events.thread[ops] == thread]
    return Window(int(trace.events.start_ns[own].min()), int(trace.events.end_ns[own].max()), 0, thread)
