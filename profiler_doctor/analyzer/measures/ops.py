"""The ops and annotations of the host threads: who encloses whom, and what each took for itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.names import distinct, names_of
from profiler_doctor.analyzer.measures.nesting import last_above, nest
from profiler_doctor.analyzer.measures.steps import step_at, step_marks, steps
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure

SLICES = ("cpu_op", "user_annotation")
NEVER = np.iinfo(np.int64).min
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


def parent_of(trace: Trace, rows: Ints) -> Ints:
    """For each row the row of the op or annotation around it, -1 for none or where the row is neither."""
    found, known = np.full(len(rows), -1), np.flatnonzero(rows >= 0)
    place = place_of(trace)[rows[known]]
    found[known[place >= 0]] = ops(trace)["parent"].to_numpy()[place[place >= 0]]
    return found


@measure
def covering_ops(trace: Trace) -> Codes:
    """The rows of the cpu_ops that no op around them covers whole, in order of thread and start.

    While any op runs, one of these does.
    """
    table, events, is_cpu_op = ops(trace), trace.events, _are_cpu_ops(trace)
    rows, above = table["row"].to_numpy(), table["parent"].to_numpy()
    inside = np.flatnonzero(above >= 0)
    inside = inside[is_cpu_op[events.category[above[inside]]]]
    covered = np.zeros(len(rows), np.bool_)
    covered[inside] = table["end_ns"].to_numpy()[inside] <= events.ends_at(above[inside])
    found: Codes = rows[is_cpu_op[events.category[rows]] & ~covered]
    return found


def enclosing_op(trace: Trace, thread_codes: Codes | Ints, times_ns: Ints) -> Ints:
    """The row of the innermost cpu_op open on each thread at each time, -1 for none; at its end it is closed."""
    table, events = ops(trace), trace.events
    known = _are_cpu_ops(trace)[events.category[table["row"].to_numpy()]]
    return _innermost(trace, np.where(known, table["end_ns"].to_numpy(), NEVER), thread_codes, times_ns)


def enclosing_slice(trace: Trace, thread_codes: Codes | Ints, times_ns: Ints) -> Ints:
    """As `enclosing_op`, of ops and annotations."""
    return _innermost(trace, ops(trace)["end_ns"].to_numpy(), thread_codes, times_ns)


def _are_cpu_ops(trace: Trace) -> Bools:
    """For each code of a category whether it is that of cpu_ops."""
    return np.array([category == "cpu_op" for category in trace.events.categories] or [False], np.bool_)


def _innermost(trace: Trace, ends: Ints, thread_codes: Codes | Ints, times_ns: Ints) -> Ints:
    """The row of the innermost slice open on each thread at each time, by the slices' `ends` in the order of `ops`."""
    table = ops(trace)
    rows, starts, threads = (table[name].to_numpy() for name in ("row", "start_ns", "thread"))
    found = np.full(len(times_ns), -1)
    for thread in distinct(thread_codes):
        asking = np.flatnonzero(thread_codes == thread)
        own = slice(*np.searchsorted(threads, (thread, thread + 1)).tolist())
        after = np.searchsorted(starts[own], times_ns[asking], side="right")
        place = last_above(ends[own], after, times_ns[asking])
        found[asking[place >= 0]] = rows[own][place[place >= 0]]
    return found


@measure
def place_of(trace: Trace) -> Codes:
    """For every event row its place in `ops`, -1 where it is neither op nor annotation."""
    order = ops(trace)["row"].to_numpy()
    found = np.full(len(trace.events), -1, np.int32)
    found[order] = np.arange(len(order), dtype=np.int32)
    return found


@measure
def end_of_inner(trace: Trace) -> Codes:
    """For every place in `ops` the first place after it that is not inside it: what a slice holds comes right after."""
    table = ops(trace)
    depth, above = table["depth"].to_numpy(), table["parent"].to_numpy()
    by_depth = np.argsort(depth.astype(np.int16) if depth.max(initial=0) < 1 << 15 else depth, kind="stable")
    first_of = np.searchsorted(depth[by_depth], np.arange(depth.max(initial=0) + 2))
    end = np.arange(1, len(table) + 1, dtype=np.int32)
    for first, after in reversed(list(pairwise(first_of[1:].tolist()))):
        inner = by_depth[first:after]
        end[place_of(trace)[above[inner]]] = end[inner]  # of several inside one the last is written last, and stays
    return end


def inside_named(trace: Trace, rows: Ints, test: Callable[[str], object]) -> Bools:
    """For each op row: whether it, or a slice around it, has a name that passes `test`. Row -1 is never inside."""
    return outermost_named(trace, rows, test) >= 0


def outermost_named(trace: Trace, rows: Ints, test: Callable[[str], object]) -> Ints:
    """For each op row: the outermost of it and the slices around it whose name passes `test`, -1 for none."""
    order, first = _by_name(trace)
    passing = [code for code in np.flatnonzero(np.diff(first)).tolist() if test(trace.events.names[code])]
    places = [order[first[code] : first[code + 1]] for code in passing]
    return _outermost(trace, rows, np.sort(np.concatenate([order[:0], *places])))


def outermost(trace: Trace, rows: Ints, chosen: Bools) -> Ints:
    """As `outermost_named`, for slices `chosen` by a mask over all events."""
    return _outermost(trace, rows, np.flatnonzero(chosen[ops(trace)["row"].to_numpy()]))


@measure
def _by_name(trace: Trace) -> tuple[Codes, Ints]:
    """The places in `ops` in order of their names, and where each name code's own begin, with one more for the end."""
    codes = ops(trace)["name"].cat.codes.to_numpy()
    first = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(trace.events.names)))))
    return np.argsort(codes, kind="stable").astype(np.int32), first


def _outermost(trace: Trace, rows: Ints, places: Ints) -> Ints:
    """For each op row: the outermost slice around it, or it itself, of those at `places` in `ops`."""
    found = np.full(len(rows), -1)
    if not len(places):
        return found
    end = end_of_inner(trace)[places]
    reach = np.maximum.accumulate(end)
    is_top = np.append(True, places[1:] >= reach[:-1])
    top, end = places[is_top], end[is_top]
    known = np.flatnonzero(np.asarray(rows) >= 0)
    place = place_of(trace)[rows[known]]
    last = np.searchsorted(top, place, side="right") - 1
    inside = (last >= 0) & (place < end[last])
    found[known[inside]] = ops(trace)["row"].to_numpy()[top[last[inside]]]
    return found


def nearest_above(trace: Trace, rows: Ints, chosen: Bools) -> Ints:
    """For each op row: the innermost slice around it (never the row itself) that is `chosen` by a mask over events."""
    if _is_deep(trace):
        parent = parent_of(trace, np.arange(len(chosen)))
        found = np.where((parent >= 0) & chosen[parent], parent, -1)
        return _ask_all_above(found, parent, lambda own, above: np.where(own >= 0, own, above))[rows]
    found = parent_of(trace, rows)
    climbing = np.flatnonzero(found >= 0)
    while len(climbing):
        climbing = climbing[~chosen[found[climbing]]]
        found[climbing] = parent_of(trace, found[climbing])
        climbing = climbing[found[climbing] >= 0]
    return found


def _is_deep(trace: Trace) -> bool:
    """Whether climbing level by level would take long: only a broken trace has so many slices in each other."""
    depth = ops(trace)["depth"]
    return bool(len(depth) and depth.max() > DEEP)


def _ask_all_above(found: Ints, parent: Ints, better: Callable[[Ints, Ints], Ints]) -> Ints:
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
