"""What the blocking calls of a window wait for, and what they take beyond it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.replay.device import SLACK_NS, Works
from profiler_doctor.analyzer.replay.host import Calls
from profiler_doctor.analyzer.trace import Ints

CLOCK_NS = 2_000
"""Work may seem to end this long after the call that waited for it: old traces hold whole microseconds."""
CALL_NS = 2_000
"""A blocking call that finds nothing to wait for; the same calls take 1 to 10 µs in public traces."""


@dataclass(frozen=True, eq=False)
class Waits:
    """For each place of a blocking call: the places of the work it waits for, how much longer it takes than that work,
    and its own time when there is nothing to wait for. `unexplained` calls waited for nothing that was recorded."""

    works: dict[int, Ints]
    residual_ns: dict[int, int]
    own_ns: Ints
    unexplained: int


def waits_of(calls: Calls, works: Works) -> Waits:
    """Which work each blocking call waits for: what was launched before it and ended before it returned."""
    own = calls.dur_ns.copy()
    awaited: dict[int, Ints] = {}
    residual: dict[int, int] = {}
    unexplained = 0
    for place in np.flatnonzero(calls.waits).tolist():
        begins, ends = int(calls.start_ns[place]), int(calls.end_ns[place])
        done = _awaited(place, calls, works)
        last = int(works.end_ns[done].max()) if len(done) else begins
        waited, rest = last > begins, ends - max(last, begins)
        if calls.frees[place] and rest > SLACK_NS:
            continue
        own[place] = min(ends - begins, CALL_NS) if waited or rest > SLACK_NS else ends - begins
        unexplained += rest > SLACK_NS
        awaited[place] = done
        residual[place] = rest if waited and rest <= SLACK_NS else min(CALL_NS, max(ends - last, 0))
    return Waits(awaited, residual, own, unexplained)


def _awaited(place: int, calls: Calls, works: Works) -> Ints:
    """Places of the last finished work on each stream that the call waits for."""
    mine = np.flatnonzero(works.call == place)
    if len(mine):
        returned: Ints = mine[works.end_ns[mine] <= calls.end_ns[place] + CLOCK_NS]
        return returned
    ends = int(calls.end_ns[place]) + CLOCK_NS
    done = np.flatnonzero((works.call < place) & (works.end_ns <= ends))
    if not len(done):
        return done
    if not calls.everywhere[place]:
        last = done[np.argmax(works.end_ns[done])]
        waited = works.end_ns[last] > calls.start_ns[place]
        stream = works.stream[last] if waited else _current_stream(place, calls, works)
        done = done[works.stream[done] == stream]
    latest = {int(works.stream[work]): int(work) for work in done[np.argsort(works.end_ns[done], kind="stable")]}
    return np.fromiter(latest.values(), dtype=np.int64, count=len(latest))


def _current_stream(place: int, calls: Calls, works: Works) -> int:
    """The stream that the call's thread used last, -1 if none."""
    mine = (works.call >= 0) & (works.call < place)
    mine[mine] = calls.thread[works.call[mine]] == calls.thread[place]
    used = np.flatnonzero(mine)
    return int(works.stream[used[np.argmax(works.call[used])]]) if len(used) else -1
