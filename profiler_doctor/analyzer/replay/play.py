"""Play a score: call by call, kernel by kernel, each as soon as what it waits for allows.

The loop exists twice, here and in native/play.c, on the same columns: a replay per finding is what diagnosis costs.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from profiler_doctor.analyzer.native import accelerator
from profiler_doctor.analyzer.replay.device import NEVER
from profiler_doctor.analyzer.replay.score import Score, counted_up
from profiler_doctor.analyzer.trace import Ints

NATIVE = accelerator("profiler_doctor.analyzer.replay._play")
AT_ONCE = 1 << 14
"""Calls whose numbers are Python's at one time: as such they take five times the memory of the columns."""


@dataclass(frozen=True, eq=False)
class Played:
    """When every call and every piece of work of a score ends, from the window's start."""

    call_end_ns: Ints
    work_end_ns: Ints
    total_ns: int
    """End of the last call and of the last work that the window launches."""


class _Columns(NamedTuple):
    """What the loop reads; int64, times in ns. native/play.c takes them in this order."""

    follows: Ints
    think_ns: Ints
    own_ns: Ints
    can_wait: Ints
    turns: Ints
    """From which work on each call's turn is, one more for the end."""
    stream: Ints
    call: Ints
    gap_ns: Ints
    latency_ns: Ints
    dur_ns: Ints
    passed_over: Ints
    waits_for: Ints
    lag_ns: Ints
    start_ns: Ints
    awaiting: Ints
    """From which place of `awaited` on each call's are, one more for the end."""
    awaited: Ints
    residual_ns: Ints


def play(score: Score) -> Played:
    """Play all of a score.

    start(work) = max(end of the stream's earlier work + gap, launch + latency, end of what it waits for + lag); a
    blocking call returns at max(its own time, completion of what it waits for + residual) (RULES.md, "Counterfactual
    replay").
    """
    columns, streams = _columns(score), int(score.works.stream.max()) + 1
    call_end, work_end = np.zeros(len(score.calls.row), np.int64), np.zeros(len(score.works.row), np.int64)
    if NATIVE:
        NATIVE.play((*columns, call_end, work_end), streams)
    else:
        _perform(columns, streams, call_end, work_end)
    return Played(call_end, work_end, int(max(call_end.max(), work_end[score.works.call >= 0].max())))


def _columns(score: Score) -> _Columns:
    calls, works, waits = score.calls, score.works, score.waits
    waiting = ~score.freed[waits.call]
    columns = (
        calls.after,
        score.think_ns,
        score.own_ns,
        calls.waits,
        score.turns,
        works.stream,
        works.call,
        works.gap_ns,
        works.latency_ns,
        works.dur_ns,
        score.dropped | score.aside,
        works.waits_for,
        works.lag_ns,
        works.start_ns,
        counted_up(waits.call[waiting] + 1, len(calls.row)),
        waits.work[waiting],
        waits.residual_ns,
    )
    return _Columns(*(np.ascontiguousarray(column, np.int64) for column in columns))


def _perform(columns: _Columns, streams: int, call_end: Ints, work_end: Ints) -> None:
    ends, ready, done_at = (array("q", bytes(8 * count)) for count in (len(call_end), len(call_end) + 1, len(work_end)))
    ready[-1] = NEVER  # of work whose launch is not in the window
    stream_end, place = [NEVER] * streams, int(columns.turns[0])
    for early in range(place):  # launched before the window: at its recorded time
        done_at[early] = stream_end[columns.stream[early]] = int(columns.start_ns[early] + columns.dur_ns[early])
    todo, awaited = _works(columns), iter(columns.awaited.tolist())
    for call, (follows, think, own, can_wait, count, awaiting, residual) in enumerate(_calls(columns)):
        start = ends[follows] + think if follows >= 0 else think
        end = start + own
        ready[call] = start if can_wait else end
        for stream, launching, gap, latency, dur, passed_over, other, lag in islice(todo, count):
            done = free = stream_end[stream]
            if not passed_over:
                begin, launched = free + gap, ready[launching] + latency
                if launched > begin:  # noqa: PLR1730  # this loop runs for every piece of work, and max() is slow
                    begin = launched
                if other >= 0 and done_at[other] + lag > begin:
                    begin = done_at[other] + lag
                done = begin + dur
                if done > free:
                    stream_end[stream] = done
            done_at[place] = done
            place += 1
        for work in islice(awaited, awaiting):
            end = max(end, done_at[work] + residual)
        ends[call] = end
    call_end[:], work_end[:] = ends, done_at


def _calls(columns: _Columns) -> Iterator[tuple[Any, ...]]:
    """Of each call: which it follows, thinking time, own time, whether it can wait, how much work is played after, how
    much is awaited, and the time beyond that."""
    own = (columns.follows, columns.think_ns, columns.own_ns, columns.can_wait)
    return _rows((*own, np.diff(columns.turns), np.diff(columns.awaiting), columns.residual_ns), 0)


def _works(columns: _Columns) -> Iterator[tuple[Any, ...]]:
    """Of each piece of work from the window's first turn on what its start and end depend on."""
    places = (columns.stream, columns.call, columns.gap_ns, columns.latency_ns, columns.dur_ns, columns.passed_over)
    return _rows((*places, columns.waits_for, columns.lag_ns), int(columns.turns[0]))


def _rows(columns: tuple[Ints, ...], begin: int) -> Iterator[tuple[Any, ...]]:
    for first in range(begin, len(columns[0]), AT_ONCE):
        yield from zip(*(column[first : first + AT_ONCE].tolist() for column in columns), strict=True)
