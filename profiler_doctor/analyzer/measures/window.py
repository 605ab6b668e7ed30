"""The part of a recording that is judged: whole steps where there are any, else everything that is linked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.idle import idle_gaps, spent_by_cause
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
    def per(self) -> int:
        """What to divide by for a number per step: the window counts as one where no steps are marked."""
        return max(self.steps, 1)

    @property
    def words(self) -> str:
        """What it holds, for a stake's basis."""
        if not self.steps:
            return "the whole recorded window, as no steps are marked"
        return f"{self.steps} recorded step{'s' if self.steps > 1 else ''}"

    @property
    def unit(self) -> str:
        """What a number divided by `per` is of."""
        return "step" if self.steps else "recorded window"


@dataclass(frozen=True)
class LinkedTime:
    """The devices' time between the first and the last linked work of the window, summed over devices.

    `idle_by_cause` has every cause of `idle.CAUSES`; busy and idle add up to the span to the nanosecond.
    """

    span_ns: int
    busy_ns: int
    idle_by_cause: dict[str, int]

    def share(self, *causes: str) -> float:
        """The share of the span that the device idles for these causes."""
        return sum(self.idle_by_cause[cause] for cause in causes) / self.span_ns if self.span_ns else 0.0

    @property
    def busy_share(self) -> float:
        """The share of the span that the device works."""
        return self.busy_ns / self.span_ns if self.span_ns else 0.0


@measure
def used_steps(trace: Trace) -> pd.DataFrame:
    """The steps that are judged: columns of `steps`, less the first one where there are STEPS_TO_SPARE or more."""
    table = steps(trace)
    return table.iloc[1:] if len(table) >= STEPS_TO_SPARE else table


@measure
def window(trace: Trace) -> Window | None:
    """The stretch that is judged; None where nothing was recorded that has a length."""
    used = used_steps(trace)
    if len(used):
        return Window(int(used["start_ns"].min()), int(used["end_ns"].max()), len(used), int(used["thread"].iloc[0]))
    work = gpu_work(trace)
    linked = work[work["launch"] >= 0]
    if len(linked):
        return _from_launches(trace, linked["launch"].to_numpy(), int(linked["end_ns"].max()))
    return _from_ops(trace, trace.rows("cpu_op"))


@measure
def linked_work(trace: Trace) -> pd.DataFrame:
    """GPU work that is launched within the window: columns of `gpu_work`."""
    return _those(gpu_work(trace), in_window(trace, gpu_work(trace)))


def in_window(trace: Trace, work: pd.DataFrame) -> pd.Series[bool]:
    """Which rows of a table of GPU work (columns launch and launch_start_ns) were launched within the window."""
    span, linked = window(trace), work["launch"] >= 0
    if span is None:
        return linked
    return linked & (work["launch_start_ns"] >= span.start_ns) & (work["launch_start_ns"] < span.end_ns)


@measure
def linked_idle(trace: Trace) -> pd.DataFrame:
    """The pieces of `idle_gaps` between the first and the last linked work of the window on each device, cut to it."""
    work = linked_work(trace)
    pieces = idle_gaps(trace)
    first, last = work.groupby("device")["start_ns"].min(), work.groupby("device")["end_ns"].max()
    pieces = _those(pieces, pieces["device"].isin(first.index))
    places = first.index.get_indexer(pd.Index(pieces["device"]))
    begins, ends = first.to_numpy()[places], last.to_numpy()[places]
    inside = (pieces["end_ns"] > begins) & (pieces["start_ns"] < ends)
    if (~inside | ((pieces["start_ns"] >= begins) & (pieces["end_ns"] <= ends))).all():
        return _those(pieces, inside)
    start, end = np.maximum(pieces["start_ns"], begins)[inside], np.minimum(pieces["end_ns"], ends)[inside]
    return pieces[inside].assign(start_ns=start, end_ns=end, dur_ns=end - start)


@measure
def linked_time(trace: Trace) -> LinkedTime:
    """How the devices' time in the window divides; see LinkedTime."""
    work, pieces = linked_work(trace), linked_idle(trace)
    span = sum(int(group["end_ns"].max() - group["start_ns"].min()) for _, group in work.groupby("device"))
    by_cause = spent_by_cause(pieces)
    return LinkedTime(span, span - sum(by_cause.values()), by_cause)


def _those(table: pd.DataFrame, chosen: pd.Series[bool]) -> pd.DataFrame:
    """The chosen rows; no copy where they are all of them or stand together, for it would stay in memory."""
    places = np.flatnonzero(chosen.to_numpy())
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return table.iloc[places[0] : places[-1] + 1]
    return table[chosen]


def _from_launches(trace: Trace, launches: Ints, gpu_end_ns: int) -> Window:
    calls = trace.rows(*HOST_CALLS)
    start = int(trace.events.start_ns[launches].min())
    end = max(gpu_end_ns, int(trace.events.ends_at(calls).max()))
    return Window(start, end, 0, int(np.bincount(trace.events.thread[launches]).argmax()))


def _from_ops(trace: Trace, ops: Ints) -> Window | None:
    if not len(ops):
        return None
    weights = np.maximum(trace.events.dur_ns[ops], 0) + 1  # ops without a duration count too
    thread = int(np.bincount(trace.events.thread[ops], weights=weights).argmax())
    own = ops[trace.events.thread[ops] == thread]
    return Window(int(trace.events.start_ns[own].min()), int(trace.events.ends_at(own).max()), 0, thread)
