"""What the blocking calls of a window wait for, and what they take beyond it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.replay.device import NEVER, SLACK_NS, Works
from profiler_doctor.analyzer.replay.host import Calls
from profiler_doctor.analyzer.trace import Ints

CLOCK_NS = 2_000
"""Work may seem to end this long after the call that waited for it: old traces hold whole microseconds."""
CALL_NS = 2_000
"""A blocking call that finds nothing to wait for; the same calls take 1 to 10 µs in public traces."""


@dataclass(frozen=True, eq=False)
class Waits:
    """What the blocking calls wait for. `call` and `work` are pairs of places, in order of the calls, one for each
    piece of work that a call waits for; `residual_ns` is, for each call, how much longer it takes than that work, and
    `own_ns` its own time when there is nothing to wait for. `unexplained` calls waited for nothing that was recorded.
    """

    call: Ints
    work: Ints
    residual_ns: Ints
    own_ns: Ints
    unexplained: int


def waits_of(calls: Calls, works: Works) -> Waits:
    """Which of the works (there are some) each blocking call waits for: launched before it and ended by its return."""
    places = np.flatnonzero(calls.waits)
    which, work = _awaited(calls, works, places)
    begins, ends = calls.start_ns[places], calls.end_ns[places]
    last = np.full(len(places), NEVER)
    np.maximum.at(last, which, works.end_ns[work])
    last = np.where(last > NEVER, last, begins)  # nothing to wait for
    waited, rest = last > begins, ends - np.maximum(last, begins)
    late = rest > SLACK_NS
    kept = ~(calls.frees[places] & late)
    own, residual = calls.dur_ns.copy(), np.zeros(len(calls.row), np.int64)
    short = np.where(waited | late, np.minimum(ends - begins, CALL_NS), ends - begins)
    own[places[kept]] = short[kept]
    beyond = np.where(waited & ~late, rest, np.minimum(CALL_NS, np.maximum(ends - last, 0)))
    residual[places[kept]] = beyond[kept]
    pairs = kept[which]
    return Waits(places[which[pairs]], work[pairs], residual, own, int((late & kept).sum()))


def _awaited(calls: Calls, works: Works, places: Ints) -> tuple[Ints, Ints]:
    """Pairs, in order of the calls: which of the calls at `places`, and the place of a piece of work it waits for.

    A call that launched something waits for that. Another one waits for the last finished work of every stream, or of
    one: the one whose work ended last, if that was during the call, else the one that its thread used last.
    """
    ends = calls.end_ns[places] + CLOCK_NS
    own_which, own = _launched_by(works, places, len(calls.row))
    others = np.flatnonzero(np.bincount(own_which, minlength=len(places)) == 0)
    done = _last_done(works, places[others], ends[others])
    done_ns = np.where(done >= 0, works.end_ns[done], NEVER)
    waited = done_ns.max(axis=1) > calls.start_ns[places[others]]
    stream = np.where(waited, done_ns.argmax(axis=1), _last_used(calls, works)[places[others]])
    asked = calls.everywhere[places[others], None] | (np.arange(done.shape[1]) == stream[:, None])
    other_which, streams = np.nonzero(asked & (done >= 0))
    in_time = works.end_ns[own] <= ends[own_which]
    which = np.concatenate((own_which[in_time], others[other_which]))
    order = np.argsort(which, kind="stable")
    return which[order], np.concatenate((own[in_time], done[other_which, streams]))[order]


def _launched_by(works: Works, places: Ints, calls: int) -> tuple[Ints, Ints]:
    """Pairs: which of the calls at `places`, and the place of a piece of work that it launched."""
    which = np.full(calls + 1, -1)
    which[places] = np.arange(len(places))
    asking = which[works.call]  # the last one is for work whose launch is not in the window
    work = np.flatnonzero(asking >= 0)
    order = np.argsort(asking[work], kind="stable")
    return asking[work][order], work[order]


def _last_done(works: Works, places: Ints, ends: Ints) -> Ints:
    """For each call and stream: the last work that was launched before the call and had ended by then, -1 for none."""
    done = np.full((len(places), int(works.stream.max()) + 1), -1)
    for stream in range(done.shape[1]):
        own = np.flatnonzero(works.stream == stream)
        launched = np.searchsorted(works.turn[own], places.astype(works.turn.dtype))
        ended = np.searchsorted(np.maximum.accumulate(works.end_ns[own]), ends, side="right")
        count = np.minimum(launched, ended)
        done[:, stream] = np.append(own, -1)[count - 1]  # none: the last one
    return done


def _last_used(calls: Calls, works: Works) -> Ints:
    """For each call the stream that its thread used last before it, -1 for none."""
    stream = np.full(len(calls.row), -1, dtype=np.int64)
    launched = works.call >= 0
    stream[works.call[launched]] = works.stream[launched]
    used = np.full(len(calls.row), -1, dtype=np.int64)
    for thread in distinct(calls.thread):
        places = np.flatnonzero(calls.thread == thread)
        latest = np.maximum.accumulate(np.where(stream[places] >= 0, np.arange(len(places)), -1))
        before = np.concatenate(([-1], latest[:-1]))
        used[places] = np.where(before >= 0, stream[places][before], -1)
    return used
