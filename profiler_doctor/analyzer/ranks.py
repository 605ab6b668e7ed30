"""Which rank of a job each trace is, and all of them on one clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Trace

RANK = re.compile(r"(?:^|[^a-z])(?:rank|worker|node|proc(?:ess)?)[-_ =.]?(\d{1,6})(?!\d)", re.IGNORECASE)
"""In a file's name or in a folder's; the last one counts."""
WALL_CLOCK = 10**17
"""Nanoseconds since 1970 (March 1973): smaller times are counted from something that only their machine knows."""


def with_ranks(traces: Sequence[Trace]) -> tuple[list[Trace], list[HealthNote]]:
    """The traces by rank, each with its number; a trace alone keeps what it says of itself.

    A rank is what the trace says, else what its name says, else the first that is free, in the order given. Where two
    claim the same rank the first has it, the others count as unknown.
    """
    if len(traces) == 1:
        return [replace(traces[0], rank=_claimed(traces[0]))], []
    taken: dict[int, int] = {}
    for place, trace in enumerate(traces):
        claimed = _claimed(trace)
        if claimed is not None:
            taken.setdefault(claimed, place)
    rank_of = {place: rank for rank, place in taken.items()}
    free = (rank for rank in range(len(traces) + len(taken)) if rank not in taken)
    guessed = [place for place in range(len(traces)) if place not in rank_of]
    rank_of |= {place: next(free) for place in guessed}
    named = [replace(trace, rank=rank_of[place]) for place, trace in enumerate(traces)]
    return sorted(named, key=lambda trace: trace.rank or 0), list(_guessed_note([named[place] for place in guessed]))


def _claimed(trace: Trace) -> int | None:
    if trace.rank is not None:
        return trace.rank
    found = RANK.findall(trace.source)
    return int(found[-1]) if found else None


def _guessed_note(guessed: Sequence[Trace]) -> Iterator[HealthNote]:
    if guessed:
        shown = ", ".join(f"{trace.source} as rank {trace.rank}" for trace in guessed[:5])
        message = f"{len(guessed)} traces do not say a rank of their own and are counted by order: {shown}."
        yield HealthNote(code="RANK-GUESSED", message=message, events=0)


def on_one_clock(traces: Sequence[Trace]) -> tuple[list[Trace], list[HealthNote]]:
    """The same traces with one `base_ns`, so that their times can be compared; nothing is rounded.

    Traces without wall-clock times cannot be lined up: they stay as they are, and a note says so.
    """
    clocked = [trace for trace in traces if _has_wall_clock(trace)]
    base = min((trace.base_ns for trace in clocked), default=0)
    aligned = [_moved(trace, base) if _has_wall_clock(trace) else trace for trace in traces]
    apart = len(traces) - len(clocked)
    if len(traces) == 1 or not apart:
        return aligned, []
    said = f"{apart} of {len(traces)} traces have no wall-clock times: their times cannot be compared with the others'."
    return aligned, [HealthNote(code="CLOCKS-APART", message=said, events=0)]


def with_peers(traces: Sequence[Trace]) -> list[Trace]:
    """The same traces, each with the others beside it; a trace alone stays alone."""
    if len(traces) < 2:
        return list(traces)
    others = [tuple(other for other in traces if other is not trace) for trace in traces]
    return [
        replace(trace, peers=peers, has=trace.has | {Has.RANKS}) for trace, peers in zip(traces, others, strict=True)
    ]


def _has_wall_clock(trace: Trace) -> bool:
    return trace.base_ns + int(trace.events.start_ns.max(initial=0)) > WALL_CLOCK


def _moved(trace: Trace, base_ns: int) -> Trace:
    if trace.base_ns == base_ns:
        return trace
    events = trace.events
    timed = (events.start_ns != 0) | (events.phase == ord("X"))  # what has no time stands at 0 and stays there
    start = np.where(timed, events.start_ns + (trace.base_ns - base_ns), events.start_ns)
    return replace(trace, events=replace(events, start_ns=start), base_ns=base_ns, cache={})
