"""The line of the user's own code that an op was called from."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.frames import OURS, frames, own_frames, place_in_source
from profiler_doctor.analyzer.measures.identity import called_at
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.operators import operator_line
from profiler_doctor.analyzer.measures.ops import is_op, ops, outermost
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace, measure


def source_of(trace: Trace, op_rows: Ints) -> list[tuple[str, int] | None]:
    """File and line of the user's own code that each op was called from; None where it is not known.

    The line is the one that calls, where our own capture tells it; else that of `function_of`. An operator is no call:
    its line is found in the source where only one can be meant.
    """
    recorded, rows, places = _own_places(trace, op_rows)
    if recorded is None:
        return [None] * len(rows)
    framed = [_framed(recorded, place) for place in places.tolist()]
    if recorded is not trace.stacks or not called_at(trace):
        return framed
    names = recorded.events.names_at(outermost(recorded, rows, is_op(recorded)))
    known = zip(framed, rows.tolist(), places.tolist(), names, strict=True)
    return [frame and (frame[0], _line(trace, frame, _Op(row, place, name))) for frame, row, place, name in known]


@dataclass(frozen=True)
class _Op:
    """In the recording with stacks: its row, the place of the frame around it, the name of the outermost op around."""

    row: int
    place: int
    name: str


def _line(trace: Trace, frame: tuple[str, int], op: _Op) -> int:
    """The line of an op in the file of the frame around it."""
    (file, stood), called = frame, called_at(trace).get(op.row)
    if called is not None:
        return called[1] if called[0] == file else stood
    assert trace.stacks is not None
    starts, lines = _calls_by_frame(trace).get(op.place, ((), ()))
    turn = bisect(starts, int(trace.stacks.events.start_ns[op.row]))
    before, after = lines[turn - 1] if turn else None, lines[turn] if turn < len(lines) else None
    folder = trace.facts.source_folder if trace.facts else ""
    found = operator_line(Path(folder, file), stood, op.name, (before, after)) if folder else None
    if found is None and op.place in _open_frames(trace.stacks):
        found = before or after
    return found or stood


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
    asked = np.asarray(op_rows, dtype=np.int64)
    recorded, rows = with_stacks(trace, asked)
    if recorded is None:
        return None, rows, np.full(len(rows), -1, np.int64)
    if recorded is not trace and np.any(rows < 0):
        rows = np.where(rows < 0, _named_alike(trace, recorded, forward_of(trace, asked)), rows)
    table = frames(recorded)
    known = np.where(rows >= 0, rows, 0)
    around = table.around(recorded.events.thread[known].astype(np.int64), recorded.events.start_ns[known])
    return recorded, rows, table.nearest(np.where(rows >= 0, around, -1), own_frames(recorded))


def _named_alike(trace: Trace, recorded: Trace, rows: Ints) -> Ints:
    """For each op row some op of its name in the recording with stacks, where all of that name stand in one function.

    A loop that goes by the data makes more turns in one process than in the next, and its ops have no counterparts.
    """
    alone = _only_function(recorded)
    names = trace.events.names_at(np.where(rows >= 0, rows, 0))
    found: Ints = np.array([alone.get(name, -1) for name in names], np.int64)
    return np.where(rows >= 0, found, -1)


@measure
def _only_function(recorded: Trace) -> Mapping[str, int]:
    """Name of an op → row of the last such op, where all of them in the steps stand in the same function."""
    every = ops(recorded)
    every = every[every["is_op"] & (every["step"] >= 0 if len(steps(recorded)) else True)]
    table, rows = frames(recorded), every["row"].to_numpy(np.int64)
    if not len(table.rows):
        return {}
    around = table.around(recorded.events.thread[rows].astype(np.int64), recorded.events.start_ns[rows])
    places = table.nearest(around, own_frames(recorded))
    function = np.where(places >= 0, recorded.events.name[table.rows[np.maximum(places, 0)]], -1)
    groups = pd.DataFrame({"name": every["name"].astype(str).to_numpy(), "row": rows, "function": function})
    by_name = groups.groupby("name").agg(row=("row", "last"), least=("function", "min"), most=("function", "max"))
    known = by_name[(by_name["least"] == by_name["most"]) & (by_name["least"] >= 0)]
    return dict(zip(known.index, known["row"].tolist(), strict=True))


def _framed(recorded: Trace, place: int) -> tuple[str, int] | None:
    return place_in_source(recorded.events.name_of(int(frames(recorded).rows[place]))) if place >= 0 else None


@measure
def _calls_by_frame(trace: Trace) -> Mapping[int, tuple[Sequence[int], Sequence[int]]]:
    """Place of an own frame → when it made calls that led to ops (ns), and on which of its lines, in time order."""
    recorded, calls = trace.stacks, called_at(trace)
    if recorded is None or not calls:
        return {}
    table = frames(recorded)
    rows = np.array(sorted(calls, key=recorded.events.start_ns.__getitem__), np.int64)
    starts = recorded.events.start_ns[rows]
    places = table.nearest(table.around(recorded.events.thread[rows].astype(np.int64), starts), own_frames(recorded))
    made: dict[int, tuple[list[int], list[int]]] = {}
    for place, start, row in zip(places.tolist(), starts.tolist(), rows.tolist(), strict=True):
        known = made.setdefault(place, ([], []))
        known[0].append(start)
        known[1].append(calls[row][1])
    return made


@measure
def _open_frames(recorded: Trace) -> frozenset[int]:
    """Places of the frames around that of ours which began the recording: their names hold the line on which they
    stood then, and not the function's first one."""
    table = frames(recorded)
    ours = np.flatnonzero(recorded.events.matching_names(OURS.search)[recorded.events.name[table.rows]])
    around, place = set(), int(ours[table.start_ns[ours].argmin()]) if len(ours) else -1
    while place >= 0:
        place = int(table.nesting.parent[place])
        around.add(place)
    return frozenset(around)


def where_of(trace: Trace, op_row: int) -> Where:
    """All that is known of an op's place: file, line, module path and its own name."""
    if op_row < 0:
        return Where()
    row = np.array([op_row])
    place = source_of(trace, row)[0]
    file, line = place or (None, None)
    return Where(file=file, line=line, module=module_of(trace, row)[0] or None, op=trace.events.name_of(op_row))


def with_stacks(trace: Trace, rows: Ints) -> tuple[Trace | None, Ints]:
    """The recording that has stacks (the trace itself, or its second recording), and in it the rows of the ops, or of
    the forward ops that they work out gradients of."""
    if len(trace.rows("python_function")):
        return trace, forward_of(trace, rows)
    if trace.stacks is None:
        return None, rows
    return trace.stacks, twins(trace, trace.stacks, forward_of(trace, rows))
