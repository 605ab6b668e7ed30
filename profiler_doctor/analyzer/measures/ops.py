"""The ops and annotations of the host threads: who encloses whom, and what each took for itself."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.names import names_of
from profiler_doctor.analyzer.measures.nesting import innermost_at, nest
from profiler_doctor.analyzer.measures.steps import step_at, step_marks, steps
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure

SLICES = ("cpu_op", "user_annotation")
DEEP = 200
"""Levels; real programs with Python's own limit of recursion stay below some dozens of ops in each other."""


@measure
def ops(trace: Trace) -> pd.DataFrame:
    """Every cpu_op and user_annotation, in order of thread, start, longest first.

    Columns: row, name, thread (code), start_ns, end_ns, dur_ns, self_ns (less its children, clipped), parent (event
    row, -1), depth (0 outermost), step (index, -1), is_op (False: an annotation). Crossing slices: see `nesting`.
    """
    events = trace.events
    rows = trace.rows(*SLICES)
    thread, start, end = events.thread[rows].astype(np.int64), events.start_ns[rows], events.ends_at(rows)
    nesting = nest(thread, start, _cut_at_marks(trace, thread, start, end))
    order = nesting.order
    parent = nesting.parent[order]
    start, end = start[order], end[order]
    return pd.DataFrame(
        {
            "row": rows[order].astype(np.int32),
            "name": names_of(trace, rows[order]),
            "thread": thread[order].astype(np.int32),
            "start_ns": start,
            "end_ns": end,
            "dur_ns": end - start,
            "self_ns": nesting.self_ns[order],
            "parent": (np.where(parent >= 0, rows[parent], -1) if len(rows) else parent).astype(np.int32),
            "depth": nesting.depth[order].astype(np.int32),
            "step": step_at(trace, start).astype(np.int32),
            "is_op": is_op(trace)[rows[order]],
        },
        copy=False,
    )


def _cut_at_marks(trace: Trace, thread: Ints, start: Ints, end: Ints) -> Ints:
    """Ends for nesting: a slice that reaches over the start of a step without holding all of it ends there.

    Where an optimizer's hook marks the steps, its own annotation is still open when the next step begins.
    """
    marks = steps(trace)
    if not len(marks):
        return end
    begins, ends = marks["start_ns"].to_numpy(), marks["mark_end_ns"].to_numpy()
    following = np.minimum(np.searchsorted(begins, start, side="right"), len(marks) - 1)
    over = (thread == int(marks["thread"].iloc[0])) & (start < begins[following])
    over &= (begins[following] < end) & (end < ends[following])
    cut: Ints = np.where(over, begins[following], end)
    return cut


@measure
def is_op(trace: Trace) -> Bools:
    """For every event row: whether it is a cpu_op, and not the mark of a step."""
    mask = np.zeros(len(trace.events), np.bool_)
    mask[trace.rows("cpu_op")] = True
    mask[step_marks(trace)] = False
    return mask


@measure
def parent_of(trace: Trace) -> Codes:
    """For every event row: the row of the op or annotation around it, -1 for none or where the row is neither."""
    table = ops(trace)
    found = np.full(len(trace.events), -1, np.int32)
    found[table["row"].to_numpy()] = table["parent"].to_numpy()
    return found


def enclosing_op(trace: Trace, thread_codes: Ints, times_ns: Ints) -> Ints:
    """The row of the innermost cpu_op open on each thread at each time, -1 for none."""
    rows = trace.rows("cpu_op")
    if not len(times_ns):
        return np.empty(0, np.int64)
    events = trace.events
    at = (np.asarray(thread_codes, np.int64), np.asarray(times_ns, np.int64))
    place = innermost_at(events.thread[rows].astype(np.int64), events.start_ns[rows], events.ends_at(rows), at)
    return np.where(place >= 0, rows[place], -1) if len(rows) else place


def inside_named(trace: Trace, rows: Ints, test: Callable[[str], object]) -> Bools:
    """For each op row: whether it, or a slice around it, has a name that passes `test`. Row -1 is never inside."""
    passes = trace.events.matching_names(test)[trace.events.name]
    return outermost(trace, rows, passes) >= 0


def outermost_named(trace: Trace, rows: Ints, test: Callable[[str], object]) -> Ints:
    """For each op row: the outermost of it and the slices around it whose name passes `test`, -1 for none."""
    return outermost(trace, rows, trace.events.matching_names(test)[trace.events.name])


def outermost(trace: Trace, rows: Ints, chosen: Bools) -> Ints:
    """As `outermost_named`, for slices `chosen` by a mask over all events."""
    parent = parent_of(trace)
    if _is_deep(trace):
        found = np.where(chosen, np.arange(len(chosen)), -1)
        return _ask_all_above(found, parent, lambda own, above: np.where(above >= 0, above, own))[rows]
    current = np.array(rows, np.int64)
    found = np.full(len(current), -1)
    while np.any(current >= 0):
        here = (current >= 0) & chosen[current]
        found = np.where(here, current, found)
        current = np.where(current >= 0, parent[current], -1)
    return found


def nearest_above(trace: Trace, rows: Ints, chosen: Bools) -> Ints:
    """For each op row: the innermost slice around it (never the row itself) that is `chosen` by a mask over events."""
    parent = parent_of(trace)
    if _is_deep(trace):
        found = np.where((parent >= 0) & chosen[parent], parent, -1)
        return _ask_all_above(found, parent, lambda own, above: np.where(own >= 0, own, above))[rows]
    found = np.where(rows >= 0, parent[rows], -1) if len(parent) else np.full(len(rows), -1)
    climbing = np.flatnonzero(found >= 0)
    while len(climbing):
        climbing = climbing[~chosen[found[climbing]]]
        found[climbing] = parent[found[climbing]]
        climbing = climbing[found[climbing] >= 0]
    return found


def _is_deep(trace: Trace) -> bool:
    """Whether climbing level by level would take long: only a broken trace has so many slices in each other."""
    depth = ops(trace)["depth"]
    return bool(len(depth) and depth.max() > DEEP)


def _ask_all_above(found: Ints, parent: Codes, better: Callable[[Ints, Ints], Ints]) -> Ints:
    """What is found for every event among itself and all slices around it, each round twice as far up.

    The last entry, for row -1, is -1.
    """
    found, above = np.append(found, -1), np.append(parent, -1)
    while np.any(above >= 0):
        found, above = better(found, found[above]), above[above]
    return found


def named(*patterns: str) -> Callable[[str], object]:
    """A test that holds for names in which any of the regular expressions is found."""
    return re.compile("|".join(patterns)).search


OP_CALLS = Table(name="op-calls", of=ops)
