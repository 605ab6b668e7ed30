"""A window of a GPU program taken apart: all that is needed to play it again, and nothing that says when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.measures.window import Window, window
from profiler_doctor.analyzer.replay.device import Works, works_in
from profiler_doctor.analyzer.replay.host import Calls, calls_in
from profiler_doctor.analyzer.replay.waits import Waits, waits_of
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure


@dataclass(frozen=True, eq=False)
class Score:
    """Calls, works and waits by place. `think_ns`: host time before each call; `own_ns`: each call without its waiting.

    `dropped` work no longer happens; `aside` work runs beside the rest, and nothing waits for it; `freed` calls no
    longer wait. `turns`: from which work on each call's turn is, one more for the end. `by_start`: the places of the
    works in order of their recorded start.
    """

    window: Window
    calls: Calls
    works: Works
    waits: Waits
    think_ns: Ints
    own_ns: Ints
    dropped: Bools
    aside: Bools
    freed: Bools
    turns: Ints
    by_start: Codes

    @property
    def recorded_ns(self) -> int:
        """From the window's start to the end of its last step or call, or of the last work it launched."""
        launched = self.works.call >= 0
        return max(int(self.calls.end_ns.max()), int(self.works.end_ns[launched].max()))


@measure
def score_of(trace: Trace) -> Score | None:
    """The recorded window; None where no GPU work is launched in it."""
    span = window(trace)
    if span is None:
        return None
    calls = calls_in(trace, span)
    works = works_in(trace, span, calls)
    if not (works.call >= 0).any():
        return None
    waits = waits_of(calls, works)
    turns = counted_up(works.turn + 1, len(calls.row))
    by_start = np.argsort(works.start_ns, kind="stable").astype(np.int32)
    works_none, calls_none = np.zeros(len(works.row), np.bool_), np.zeros(len(calls.row), np.bool_)
    none = {"dropped": works_none, "aside": works_none, "freed": calls_none}
    return Score(span, calls, works, waits, calls.think_ns, waits.own_ns, turns=turns, by_start=by_start, **none)


def counted_up(numbers: Ints | Codes, last: int) -> Ints:
    """How many of the numbers (0 and up) are not above 0, 1, … `last`."""
    return np.cumsum(np.bincount(numbers, minlength=last + 1))


def least_ns(score: Score) -> int:
    """The union of the GPU work that stays, on the device that has most of it: no cure goes below that.

    Work that runs aside can hide behind the rest, but not behind itself: the longer of the two unions counts.
    """
    works, start, end = score.works, score.works.start_ns, score.works.end_ns
    stays = score.by_start[((works.call >= 0) & ~score.dropped)[score.by_start]]
    device, aside = works.device[stays], score.aside[stays]
    parts = [stays[(device == one) & (aside == beside)] for one in distinct(device) for beside in (False, True)]
    return max((union_ns(start[part], end[part]) for part in parts), default=0)
