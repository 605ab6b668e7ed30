"""Stretches of a step in which its thread is in no op: Python, and what Python calls outside of torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.frames import OURS, frames, own_frames, place_in_source
from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.intervals import AT_ONCE, Intervals, union, without
from profiler_doctor.analyzer.measures.ops import covering_ops, ops
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.measures.window import used_steps, window
from profiler_doctor.analyzer.trace import HOST_CALLS, Bools, Codes, Ints, Trace, measure

LEAST_NS = 300_000
"""Shorter ones are what lies between any two ops, a call of a function or a few."""
OTHER_CAUSES = (" of a list of arrays", "DataLoader: workers start")
"""Ends of the names of ranges that our capture makes: other rules speak of them."""
LOOKS = 9
"""Moments within a gap at which the second recording is asked which frame is open."""


@measure
def python_gaps(trace: Trace) -> pd.DataFrame:
    """The gaps of the judged steps that last LEAST_NS or more, in time order.

    Columns: start_ns, end_ns, dur_ns, step, before, after (rows of the ops on the step's thread around it, -1 for the
    edge of the recording), turn (which of the ops of its name in its step `after` is). No gap: while an op runs on any
    thread, a data loader is asked, an optimizer steps, or the host calls a device's runtime.
    """
    span, marks = window(trace), used_steps(trace)
    if span is None:
        return _table(np.empty((0, 2), np.int64), np.empty(0, np.int64), trace, -1)
    bounds = (
        marks[["start_ns", "end_ns"]].to_numpy(np.int64) if len(marks) else np.array([[span.start_ns, span.end_ns]])
    )
    events = trace.events
    busy = (covering_ops(trace), trace.rows(*HOST_CALLS), trace.rows_named(_otherwise, ("user_annotation",)))
    free = Intervals(bounds[:, 0], bounds[:, 1], np.arange(len(bounds)))
    for rows in (part for every in busy for part in np.split(every, range(AT_ONCE, len(every), AT_ONCE))):
        free = _long_left(free, events.start_ns[rows], events.ends_at(rows))
    step = marks.index.to_numpy()[free.owner] if len(marks) else np.full(len(free), -1)
    return _table(np.stack((free.starts, free.ends), axis=1), step, trace, span.thread)


def _long_left(free: Intervals, starts: Ints, ends: Ints) -> Intervals:
    """What is free beside the slices, in pieces of LEAST_NS or more: shorter ones only become shorter still."""
    ended = np.searchsorted(free.ends, starts, side="right")
    there = ended < len(free)
    there[there] = free.starts[ended[there]] < ends[there]
    left = without(free, union(starts[there], ends[there]))
    long = left.ends - left.starts >= LEAST_NS
    return Intervals(left.starts[long], left.ends[long], left.owner[long])


@dataclass(frozen=True)
class Open:
    """Frames open for most of a gap: `own` the innermost of the user's own code, `innermost` of all; "" none.

    `ours`: it is our capture that runs there, or a built-in function that it called.
    """

    own: str
    innermost: str
    ours: bool


def frame_in(trace: Trace, before: int, after: int) -> Open | None:
    """The frames that are open between two ops; None where that is not known.

    From the trace's own stacks, or from those of the second recording, where both ops have a counterpart in one step.
    """
    recorded = trace if len(trace.rows("python_function")) else trace.stacks
    if recorded is None:
        return None
    around = np.array([before, after])
    there = around if recorded is trace else twins(trace, recorded, around)
    gap = _gap_at(recorded, int(there[0]), int(there[1])) if len(recorded.events) else None
    if gap is None:
        return None
    start, end, thread = gap
    table = frames(recorded)
    times = np.linspace(start, end, LOOKS + 2)[1:-1].astype(np.int64)
    places = table.around(np.full(LOOKS, thread), times)
    own = table.nearest(places, own_frames(recorded))
    files = table.nearest(places, _with_a_file(recorded))
    ours = OURS.search(_most(recorded, table.rows, files)) is not None
    return Open(_most(recorded, table.rows, own), _most(recorded, table.rows, places), ours)


def _with_a_file(trace: Trace) -> Bools:
    return trace.events.matching_names(place_in_source)[trace.events.name[frames(trace).rows]]


def _gap_at(trace: Trace, before: int, after: int) -> tuple[int, int, int] | None:
    """Start, end and thread of the time from one op to the next one of its thread, or from the last one to another op.

    Two ops of a gap may be known from different steps of the second recording, so one of them is followed.
    """
    events, rows = trace.events, trace.rows("cpu_op")
    for row in (before, after):
        if row < 0:
            continue
        own = rows[events.thread[rows] == events.thread[row]]
        start, end = int(events.ends_at([before])[0]), int(events.start_ns[after])
        if row == before:
            later = events.start_ns[own][events.start_ns[own] >= start]
            end = int(later.min()) if len(later) else start
        else:
            earlier = events.ends_at(own)[events.ends_at(own) <= end]
            start = int(earlier.max()) if len(earlier) else end
        if end - start >= LEAST_NS:
            return start, end, int(events.thread[row])
    return None


def _most(trace: Trace, rows: Ints, places: Ints) -> str:
    known = places[places >= 0]
    return trace.events.name_of(int(rows[np.bincount(known).argmax()])) if len(known) else ""


def _otherwise(name: str) -> bool:
    return bool(LOADER.search(name)) or name.startswith("Optimizer.") or name.endswith(OTHER_CAUSES)


def _table(bounds: Ints, step: Ints, trace: Trace, thread: int) -> pd.DataFrame:
    table = ops(trace)
    mine = np.flatnonzero(table["is_op"].to_numpy() & (table["thread"].to_numpy() == thread))
    rows = table["row"].to_numpy()[mine]
    after = np.searchsorted(table["start_ns"].to_numpy()[mine], bounds[:, 1], side="left")
    last = _last_ended(table["end_ns"].to_numpy()[mine], bounds[:, 0])
    padded = np.append(rows, -1).astype(np.int64)
    turn = _turns(trace.events.name[rows], table["step"].to_numpy()[mine], after)
    return pd.DataFrame(
        {
            "start_ns": bounds[:, 0],
            "end_ns": bounds[:, 1],
            "dur_ns": bounds[:, 1] - bounds[:, 0],
            "step": step,
            "before": padded[last],
            "after": padded[after],
            "turn": turn,
        }
    )


def _last_ended(ends: Ints, times: Ints) -> Ints:
    """For each time the place of the op that ended last until then, of several the last one; -1 for none."""
    found, latest = np.full(len(times), -1), np.full(len(times), np.iinfo(np.int64).min)
    for first in range(0, len(ends), AT_ONCE):
        part = ends[first : first + AT_ONCE]
        order = np.argsort(part, kind="stable")
        place = order[np.maximum(np.searchsorted(part[order], times, side="right") - 1, 0)]
        later = (part[place] <= times) & (part[place] >= latest)
        found, latest = np.where(later, first + place, found), np.where(later, part[place], latest)
    return found


def _turns(name: Codes, step: Codes, places: Ints) -> Ints:
    """For each of the places: how many ops before it have its name and its step; -1 for the place after the last."""
    turns, there = np.full(len(places), -1), places < len(name)
    alike = np.flatnonzero(np.isin(name, name[places[there]], kind="table"))
    keys = step[alike].astype(np.int64) * (int(name.max(initial=0)) + 1) + name[alike]
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    nth = np.empty(len(alike), np.int64)
    nth[order] = np.arange(len(alike)) - np.searchsorted(in_order, in_order, side="left")
    turns[there] = nth[np.searchsorted(alike, places[there])]
    return turns
