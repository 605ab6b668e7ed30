"""Where a step on the CPU goes: the time of its own thread, by what that thread did or waited for."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.families import family_of
from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union, without
from profiler_doctor.analyzer.measures.nesting import nest
from profiler_doctor.analyzer.measures.ops import SLICES, outermost_named
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.trace import Ints, Trace, measure

PYTHON = "python between ops"
AROUND = {
    "data loading": LOADER,
    "optimizer": re.compile(r"^Optimizer\.(?:step|zero_grad)#"),
    "backward": re.compile(r"^autograd::engine::evaluate_function"),
}
"""Part → the name around an op that decides before the op's own name does; the first that is found."""
WARM_FROM = 3
"""From so many steps on the first one is left out: it pays for what later ones reuse."""


@measure
def cpu_step_parts(trace: Trace) -> dict[str, int]:
    """Part → ns of the median recorded step, the largest first; empty where no steps are marked.

    The parts exclude each other and add up to the step exactly. An op counts with its self time, under the data loader,
    the optimizer or the backward pass if it is inside one, else under its own family. Where the step's thread is in no
    op, it waits for the backward pass if another thread runs one, else it is in Python.
    """
    step = median_step(trace)
    if step is None:
        return {}
    start, end, thread = step
    parts, open_ns = _by_part(trace, start, end, thread)
    waiting = min(_elsewhere(trace, start, end, thread), open_ns)
    parts["backward"] = parts.get("backward", 0) + waiting
    parts[PYTHON] = parts.get(PYTHON, 0) + open_ns - waiting
    return dict(sorted(((part, time) for part, time in parts.items() if time), key=lambda pair: -pair[1]))


def median_step(trace: Trace) -> tuple[int, int, int] | None:
    """(start_ns, end_ns, thread code) of the step of median length; of three or more the first is left out."""
    table = steps(trace)
    warm = table.iloc[1:] if len(table) >= WARM_FROM else table
    if not len(warm):
        return None
    place = warm["dur_ns"].argsort(kind="stable").iloc[(len(warm) - 1) // 2]
    chosen = warm.iloc[place]
    return int(chosen["start_ns"]), int(chosen["end_ns"]), int(chosen["thread"])


def _by_part(trace: Trace, start: int, end: int, thread: int) -> tuple[dict[str, int], int]:
    """Part → self time of the thread's ops within the step, and the time in none."""
    events = trace.events
    rows = trace.rows(*SLICES)
    rows = rows[events.thread[rows] == thread]
    begin, until = np.maximum(events.start_ns[rows], start), np.minimum(events.ends_at(rows), end)
    inside = until > begin
    rows, begin, until = rows[inside], begin[inside], until[inside]
    nesting = nest(np.zeros(len(rows), np.int64), begin, until)
    table = pd.DataFrame({"part": _parts(trace, rows), "self_ns": nesting.self_ns})
    sums = table.groupby("part")["self_ns"].sum()
    found = {str(part): int(time) for part, time in sums.items() if part != PYTHON}
    return found, end - start - sum(found.values())


def _parts(trace: Trace, rows: Ints) -> list[str]:
    """The part that each slice's self time belongs to; an annotation of the user's own is Python around ops."""
    events = trace.events
    is_op = {code for code, name in enumerate(events.categories) if name == "cpu_op"}
    by_name = np.array([family_of(name) for name in events.names] or [""], dtype=object)
    part = np.where(np.isin(events.category[rows], list(is_op)), by_name[events.name[rows]], PYTHON)
    for name, around in reversed(AROUND.items()):
        part = np.where(outermost_named(trace, rows, around.search) >= 0, name, part)
    return [str(name) for name in part]


def _elsewhere(trace: Trace, start: int, end: int, thread: int) -> int:
    """How long the backward pass ran on other threads while the step's own thread was in no op."""
    events = trace.events
    ops = trace.rows("cpu_op")
    own = ops[events.thread[ops] == thread]
    idle = without(
        Intervals(np.array([start]), np.array([end]), np.array([0])),
        union(events.start_ns[own], events.ends_at(own)),
    )
    nodes = trace.rows_named(AROUND["backward"].search, ("cpu_op",))
    nodes = nodes[events.thread[nodes] != thread]
    return int(covered_ns(idle, union(events.start_ns[nodes], events.ends_at(nodes)), 1).sum())
