"""A window of a GPU program taken apart: all that is needed to play it again, and nothing that says when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.window import Window, window
from profiler_doctor.analyzer.replay.device import Works, works_in
from profiler_doctor.analyzer.replay.host import Calls, calls_in
from profiler_doctor.analyzer.replay.waits import Waits, waits_of
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure


@dataclass(frozen=True, eq=False)
class Score:
    """Calls, works and waits by place. `think_ns`: host time before each call; `own_ns`: each call without its waiting.

    `dropped` work no longer happens; `aside` work runs beside the rest, and nothing waits for it; `freed` are the
    places of calls that no longer wait.
    """

    window: Window
    calls: Calls
    works: Works
    waits: Waits
    think_ns: Ints
    own_ns: Ints
    dropped: Bools
    aside: Bools
    freed: frozenset[int] = frozenset()

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
    none = np.zeros(len(works.row), dtype=np.bool_)
    return Score(span, calls, works, waits, calls.think_ns, waits.own_ns, dropped=none, aside=none)


def least_ns(score: Score) -> int:
    """The union of the GPU work that stays, on the device that has most of it: no cure goes below that.

    Work that runs aside can hide behind the rest, but not behind itself: the longer of the two unions counts.
    """
    works = score.works
    stays = (works.call >= 0) & ~score.dropped
    parts = [
        stays & (works.device == device) & (score.aside == aside)
        for device in np.unique(works.device[stays])
        for aside in (False, True)
    ]
    return max((union_ns(works.start_ns[part], works.end_ns[part]) for part in parts), default=0)
