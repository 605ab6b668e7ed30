"""The line of the user's own code that an op was called from."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping

import numpy as np

from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.frames import OURS, frames, own_frames, place_in_source
from profiler_doctor.analyzer.measures.identity import called_at
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace, measure


def source_of(trace: Trace, op_rows: Ints) -> list[tuple[str, int] | None]:
    """File and line of the user's own code that each op was called from; None where it is not known.

    The line is the one that calls, where our own capture tells it; else that of `function_of`. Of an operator, which is
    no call, in a function that stood open when the recording began, it is the line of the function's call before it.
    """
    recorded, rows, places = _own_places(trace, op_rows)
    if recorded is None:
        return [None] * len(rows)
    known = recorded is trace.stacks
    calls, open_calls = (called_at(trace), _calls_of_open_frames(trace)) if known else ({}, {})
    found: list[tuple[str, int] | None] = []
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        framed, called = _framed(recorded, place), calls.get(row)
        if called is None and place in open_calls:
            starts, lines = open_calls[place]
            called = lines[max(bisect(starts, int(recorded.events.start_ns[row])) - 1, 0)]
        found.append(called if framed is not None and called is not None and called[0] == framed[0] else framed)
    return found


def function_of(trace: Trace, op_rows: Ints) -> list[tuple[str, int] | None]:
    """File and line of the innermost frame of the user's own code around each op: what ops of one function share.

    An op of the backward pass gets the place of its forward op. Where the trace has no stacks of its own, the second
    recording's (`trace.stacks`) counterpart is asked. The line is the function's first line: the profiler writes none
    inside it. None where it is not known.
    """
    recorded, _, places = _own_places(trace, op_rows)
    return [None if recorded is None else _framed(recorded, place) for place in places.tolist()]


def _own_places(trace: Trace, op_rows: Ints) -> tuple[Trace | None, Ints, Ints]:
    """The recording that has stacks, and there each op's row and the place of the innermost own frame around it."""
    recorded, rows = with_stacks(trace, forward_of(trace, np.asarray(op_rows, dtype=np.int64)))
    if recorded is None:
        return None, rows, np.full(len(rows), -1, np.int64)
    table = frames(recorded)
    known = np.where(rows >= 0, rows, 0)
    around = table.around(recorded.events.thread[known].astype(np.int64), recorded.events.start_ns[known])
    return recorded, rows, table.nearest(np.where(rows >= 0, around, -1), own_frames(recorded))


def _framed(recorded: Trace, place: int) -> tuple[str, int] | None:
    return place_in_source(recorded.events.name_of(int(frames(recorded).rows[place]))) if place >= 0 else None


@measure
def _calls_of_open_frames(trace: Trace) -> Mapping[int, tuple[list[int], list[tuple[str, int]]]]:
    """Own frames that were open when our recording began, whose names hold the line on which they stood then: when they
    made calls that led to ops (ns), and on which lines, in time order."""
    recorded, calls = trace.stacks, called_at(trace)
    if recorded is None or not calls:
        return {}
    table, own = frames(recorded), own_frames(recorded)
    rows = np.array(sorted(calls, key=recorded.events.start_ns.__getitem__), np.int64)
    starts = recorded.events.start_ns[rows]
    places = table.nearest(table.around(recorded.events.thread[rows].astype(np.int64), starts), own)
    made: dict[int, tuple[list[int], list[tuple[str, int]]]] = {}
    for place in _open_frames(recorded):
        mine = rows[places == place].tolist()
        if mine:
            made[place] = recorded.events.start_ns[mine].tolist(), [calls[row] for row in mine]
    return made


def _open_frames(recorded: Trace) -> list[int]:
    """Places of the frames around that of ours which began the recording."""
    table = frames(recorded)
    ours = np.flatnonzero(recorded.events.matching_names(OURS.search)[recorded.events.name[table.rows]])
    if not len(ours):
        return []
    around, place = [], int(ours[table.start_ns[ours].argmin()])
    while (place := int(table.nesting.parent[place])) >= 0:
        around.append(place)
    return around


def where_of(trace: Trace, op_row: int) -> Where:
    """All that is known of an op's place: file, line, module path and its own name."""
    if op_row < 0:
        return Where()
    row = np.array([op_row])
    place = source_of(trace, row)[0]
    file, line = place or (None, None)
    return Where(file=file, line=line, module=module_of(trace, row)[0] or None, op=trace.events.name_of(op_row))


def with_stacks(trace: Trace, rows: Ints) -> tuple[Trace | None, Ints]:
    """The recording that has stacks (the trace itself, or its second recording), and the ops' rows in it."""
    if len(trace.rows("python_function")):
        return trace, rows
    if trace.stacks is None:
        return None, rows
    return trace.stacks, twins(trace, trace.stacks, rows)
