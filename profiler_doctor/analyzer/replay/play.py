"""Play a score: call by call, kernel by kernel, each as soon as what it waits for allows."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from profiler_doctor.analyzer.replay.device import NEVER
from profiler_doctor.analyzer.replay.score import Score
from profiler_doctor.analyzer.trace import Ints

AT_ONCE = 1 << 14
"""Calls whose numbers are Python's at one time: as such they take five times the memory of the columns."""


@dataclass(frozen=True, eq=False)
class Played:
    """When every call and every piece of work of a score ends, from the window's start."""

    call_end_ns: Ints
    work_end_ns: Ints
    total_ns: int
    """End of the last call and of the last work that the window launches."""


def play(score: Score) -> Played:
    """Play all of a score.

    start(work) = max(end of the stream's earlier work + gap, launch + latency, end of what it waits for + lag); a
    blocking call returns at max(its own time, completion of what it waits for + residual) (RULES.md, "Counterfactual
    replay").
    """
    calls, works, waits = score.calls, score.works, score.waits
    call_end, ready = (array("q", bytes(8 * (len(calls.row) + 1))) for _ in range(2))
    ready[-1] = NEVER  # of work whose launch is not in the window
    work_end, stream_end = array("q", bytes(8 * len(works.row))), [NEVER] * (int(works.stream.max()) + 1)
    turns = np.append(np.searchsorted(works.turn, np.arange(len(calls.row))), len(works.row))
    place = int(turns[0])
    for early in range(place):  # launched before the window: at its recorded time
        work_end[early] = stream_end[works.stream[early]] = int(works.start_ns[early] + works.dur_ns[early])
    awaited = {call: done for call, done in waits.works.items() if call not in score.freed}
    todo = _works(score, turns)
    for call, (follows, think, own, can_wait, count) in enumerate(_calls(score, turns)):
        start = call_end[follows] + think if follows >= 0 else think
        end = start + own
        ready[call] = start if can_wait else end
        for stream, launching, gap, latency, dur, passed_over, other, lag in islice(todo, count):
            done = free = stream_end[stream]
            if not passed_over:
                begin, launched = free + gap, ready[launching] + latency
                if launched > begin:  # noqa: PLR1730  # this loop runs for every piece of work, and max() is slow
                    begin = launched
                if other >= 0 and work_end[other] + lag > begin:
                    begin = work_end[other] + lag
                done = begin + dur
                if done > free:
                    stream_end[stream] = done
            work_end[place] = done
            place += 1
        for work in awaited.get(call, ()):
            end = max(end, work_end[work] + waits.residual_ns[call])
        call_end[call] = end
    calls_end, works_end = (np.array(ends, np.int64) for ends in (call_end[:-1], work_end))
    return Played(calls_end, works_end, int(max(calls_end.max(), works_end[works.call >= 0].max())))


def _calls(score: Score, turns: Ints) -> Iterator[tuple[Any, ...]]:
    """Of each call: which it follows, thinking time, own time, whether it can wait, how much work is played after."""
    columns = (score.calls.after, score.think_ns, score.own_ns, score.calls.waits, np.diff(turns))
    for first in range(0, len(turns) - 1, AT_ONCE):
        yield from zip(*(column[first : first + AT_ONCE].tolist() for column in columns), strict=True)


def _works(score: Score, turns: Ints) -> Iterator[tuple[Any, ...]]:
    """Of each piece of work from the window's first turn on what its start and end depend on."""
    works = score.works
    passed_over = score.dropped | score.aside
    places = (works.stream, works.call, works.gap_ns, works.latency_ns, works.dur_ns, passed_over)
    for first in range(int(turns[0]), len(works.row), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        yield from zip(*(column[part].tolist() for column in (*places, works.waits_for, works.lag_ns)), strict=True)
