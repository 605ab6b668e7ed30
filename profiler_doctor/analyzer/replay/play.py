"""Play a score: call by call, kernel by kernel, each as soon as what it waits for allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.replay.device import NEVER
from profiler_doctor.analyzer.replay.score import Score
from profiler_doctor.analyzer.trace import Ints


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
    turns = _turns(works.turn.tolist(), len(calls.row))
    call_end, ready = [0] * len(calls.row), [NEVER] * (len(calls.row) + 1)
    work_end, stream_end = [0] * len(works.row), [NEVER] * (int(works.stream.max()) + 1)
    columns = [column.tolist() for column in (works.stream, works.call, works.gap_ns, works.latency_ns)]
    stream_of, call_of, gap, latency = columns
    dur, dropped, waits_for, lag = (c.tolist() for c in (works.dur_ns, score.dropped, works.waits_for, works.lag_ns))
    for place in range(turns[0]):  # launched before the window: at its recorded time
        work_end[place] = stream_end[stream_of[place]] = int(works.start_ns[place]) + dur[place]
    after, think, own, can_wait = (c.tolist() for c in (calls.after, score.think_ns, score.own_ns, calls.waits))
    for call, follows in enumerate(after):
        start = (call_end[follows] if follows >= 0 else 0) + think[call]
        end = start + own[call]
        ready[call] = start if can_wait[call] else end
        for place in range(turns[call], turns[call + 1]):
            stream = stream_of[place]
            if dropped[place]:
                work_end[place] = stream_end[stream]
                continue
            begin = max(stream_end[stream] + gap[place], ready[call_of[place]] + latency[place])
            if waits_for[place] >= 0:
                begin = max(begin, work_end[waits_for[place]] + lag[place])
            work_end[place] = begin + dur[place]
            stream_end[stream] = max(stream_end[stream], work_end[place])
        if call in waits.works and call not in score.freed:
            for place in waits.works[call]:
                end = max(end, work_end[place] + waits.residual_ns[call])
        call_end[call] = end
    calls_end, works_end = np.array(call_end, dtype=np.int64), np.array(work_end, dtype=np.int64)
    return Played(calls_end, works_end, int(max(calls_end.max(), works_end[works.call >= 0].max())))


def _turns(turns: list[int], calls: int) -> list[int]:
    """For each call the first place of the work that is played after it; the last entry is the number of works."""
    first = [0] * (calls + 1)
    place = 0
    for call in range(calls):
        while place < len(turns) and turns[place] < call:
            place += 1
        first[call] = place
    first[calls] = len(turns)
    return first
