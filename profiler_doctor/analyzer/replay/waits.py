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

    works: dict[int, list[int]]
    residual_ns: dict[int, int]
    own_ns: Ints
    unexplained: int


def waits_of(calls: Calls, works: Works) -> Waits:
    """Which work each blocking call waits for: what was launched before it and ended before it returned."""
    own = calls.dur_ns.copy()
    awaited: dict[int, list[int]] = {}
    residual: dict[int, int] = {}
    unexplained = 0
    queues = _Queues(calls, works)
    work_end = works.end_ns
    for place in np.flatnonzero(calls.waits).tolist():
        begins, ends = int(calls.start_ns[place]), int(calls.end_ns[place])
        done = queues.awaited(place)
        last = max((int(work_end[work]) for work in done), default=begins)
        waited, rest = last > begins, ends - max(last, begins)
        if calls.frees[place] and rest > SLACK_NS:
            continue
        own[place] = min(ends - begins, CALL_NS) if waited or rest > SLACK_NS else ends - begins
        unexplained += rest > SLACK_NS
        awaited[place] = done
        residual[place] = rest if waited and rest <= SLACK_NS else min(CALL_NS, max(ends - last, 0))
    return Waits(awaited, residual, own, unexplained)


class _Queues:
    """The work of each stream in the order in which it was launched, to look up what had been done by when."""

    def __init__(self, calls: Calls, works: Works) -> None:
        self._calls = calls
        self._end_ns = works.end_ns
        self._streams = {int(stream): np.flatnonzero(works.stream == stream) for stream in np.unique(works.stream)}
        self._done_ns = {stream: np.maximum.accumulate(works.end_ns[own]) for stream, own in self._streams.items()}
        self._launched = {stream: works.turn[own] for stream, own in self._streams.items()}
        first = np.flatnonzero(works.call >= 0)
        first = first[np.argsort(works.call[first], kind="stable")]
        self._by_call = works.call[first], first
        self._last_used = _last_used(calls, works)

    def awaited(self, place: int) -> list[int]:
        """Places of the last finished work on each stream that the call at `place` waits for."""
        ends = int(self._calls.end_ns[place]) + CLOCK_NS
        launching, works = self._by_call
        mine = works[np.searchsorted(launching, place) : np.searchsorted(launching, place, side="right")]
        if len(mine):
            return [int(work) for work in mine if self._end_ns[work] <= ends]
        done = {stream: self._done(stream, place, ends) for stream in self._streams}
        done = {stream: work for stream, work in done.items() if work >= 0}
        if self._calls.everywhere[place] or not done:
            return list(done.values())
        last = max(done, key=lambda stream: int(self._end_ns[done[stream]]))
        waited = self._end_ns[done[last]] > self._calls.start_ns[place]
        stream = last if waited else int(self._last_used[place])
        return [done[stream]] if stream in done else []

    def _done(self, stream: int, place: int, ends: int) -> int:
        launched = int(np.searchsorted(self._launched[stream], place))
        ended = int(np.searchsorted(self._done_ns[stream], ends, side="right"))
        count = min(launched, ended)
        return int(self._streams[stream][count - 1]) if count else -1


def _last_used(calls: Calls, works: Works) -> Ints:
    """For each call the stream that its thread used last before it, -1 for none."""
    stream = np.full(len(calls.row), -1, dtype=np.int64)
    launched = works.call >= 0
    stream[works.call[launched]] = works.stream[launched]
    used = np.full(len(calls.row), -1, dtype=np.int64)
    for thread in np.unique(calls.thread):
        places = np.flatnonzero(calls.thread == thread)
        latest = np.maximum.accumulate(np.where(stream[places] >= 0, np.arange(len(places)), -1))
        before = np.concatenate(([-1], latest[:-1]))
        used[places] = np.where(before >= 0, stream[places][before], -1)
    return used
