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
    turns = np.searchsorted(works.turn, np.arange(len(calls.row) + 1)).tolist()
    turns[-1] = len(works.row)
    call_end, ready = [0] * len(calls.row), [NEVER] * (len(calls.row) + 1)
    work_end, stream_end = [0] * len(works.row), [NEVER] * (int(works.stream.max()) + 1)
    columns = [column.tolist() for column in (works.stream, works.call, works.gap_ns, works.latency_ns)]
    stream_of, call_of, gap, latency = columns
    dur, dropped, waits_for, lag = (c.tolist() for c in (works.dur_ns, score.dropped, works.waits_for, works.lag_ns))
    for place in range(turns[0]):  # launched before the window: at its recorded time
        work_end[place] = stream_end[stream_of[place]] = int(works.start_ns[place]) + dur[place]
    after, think, own, can_wait = (c.tolist() for c in (calls.after, score.think_ns, score.own_ns, calls.waits))
    awaited = {call: done for call, done in waits.works.items() if call not in score.freed}
    for call, follows in enumerate(after):
        start = call_end[follows] + think[call] if follows >= 0 else think[call]
        end = start + own[call]
        ready[call] = start if can_wait[call] else end
        for place in range(turns[call], turns[call + 1]):
            stream = stream_of[place]
            free = stream_end[stream]
            if dropped[place]:
                work_end[place] = free
                continue
            begin, launched, other = free + gap[place], ready[call_of[place]] + latency[place], waits_for[place]
            if launched > begin:  # noqa: PLR1730  # this loop runs for every piece of work, and max() is slow
                begin = launched
            if other >= 0 and work_end[other] + lag[place] > begin:
                begin = work_end[other] + lag[place]
            done = work_end[place] = begin + dur[place]
            if done > free:
                stream_end[stream] = done
        for place in awaited.get(call, ()):
            end = max(end, work_end[place] + waits.residual_ns[call])
        call_end[call] = end
    calls_end, works_end = np.array(call_end, dtype=np.int64), np.array(work_end, dtype=np.int64)
    return Played(calls_end, works_end, int(max(calls_end.max(), works_end[works.call >= 0].max())))
