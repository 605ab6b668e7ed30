"""Where Python objects are turned into tensors number by number: the time is in no op, so no table of ops shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.facts import ArraysFacts
from profiler_doctor.analyzer.measures.frames import frames, own_frames, place_in_source
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

MAKES = re.compile(r"^<built-in method (?P<name>tensor|as_tensor) of type object")
"""The frame of `torch.tensor` in a recording with stacks."""
IN_OPS = 0.2
"""More of such a frame in ops, and it copied an array as a whole, which is no conversion."""


@dataclass(frozen=True)
class Conversions:
    """The calls of one line."""

    call: str
    where: Where
    rows: tuple[int, ...]
    """Ranges that our capture made, or Python frames."""
    facts: ArraysFacts | None
    """What was converted; None where our capture did not see it: a list of arrays, or of numbers."""


def conversions(trace: Trace) -> tuple[Conversions, ...]:
    """All conversions within the judged window, one entry for each line as far as lines are told apart."""
    seen = trace.facts.arrays if trace.facts else ()
    return _seen(trace, seen) if seen else _framed(trace)


def _seen(trace: Trace, seen: tuple[ArraysFacts, ...]) -> tuple[Conversions, ...]:
    """As our capture saw them. Lines that share a range are one entry, named after the line of most numbers."""
    found = []
    for name in dict.fromkeys(one.range_name for one in seen):
        lines = [one for one in seen if one.range_name == name]
        most = max(lines, key=lambda one: one.calls * one.elements)
        rows = rows_in_window(trace, trace.rows_named(name.__eq__, ("user_annotation",)))
        if len(rows):
            where = Where(file=most.file or None, line=most.line or None, op=most.call)
            found.append(Conversions(most.call, where, tuple(rows.tolist()), most))
    return tuple(found)


def _framed(trace: Trace) -> tuple[Conversions, ...]:
    """As the stacks of the trace itself show them; those of a second recording say nothing of time."""
    rows = rows_in_window(trace, trace.rows_named(MAKES.match, ("python_function",)))
    rows = rows[_in_ops(trace, rows) < IN_OPS * np.maximum(trace.events.dur_ns[rows], 1)]
    found: dict[tuple[str, tuple[str, int] | None], list[int]] = {}
    for row, place in zip(rows.tolist(), _places(trace, rows), strict=True):
        made = MAKES.match(trace.events.name_of(row))
        found.setdefault((f"torch.{made['name'] if made else ''}", place), []).append(row)
    return tuple(
        Conversions(call, Where(file=place[0], line=place[1], op=call) if place else Where(op=call), tuple(mine), None)
        for (call, place), mine in found.items()
    )


def _in_ops(trace: Trace, rows: Ints) -> Ints:
    """How long any op of its thread ran within each row."""
    events, found = trace.events, np.zeros(len(rows), np.int64)
    ops = trace.rows("cpu_op")
    for thread in np.unique(events.thread[rows]).tolist():
        mine, own = np.flatnonzero(events.thread[rows] == thread), ops[events.thread[ops] == thread]
        order = mine[np.argsort(events.start_ns[rows[mine]], kind="stable")]
        parts = Intervals(events.start_ns[rows[order]], events.ends_at(rows[order]), np.arange(len(order)))
        found[order] = covered_ns(parts, union(events.start_ns[own], events.ends_at(own)), len(order))
    return found


def _places(trace: Trace, rows: Ints) -> list[tuple[str, int] | None]:
    """The user's own line around each frame."""
    table, events = frames(trace), trace.events
    around = table.around(events.thread[rows].astype(np.int64), events.start_ns[rows])
    own = table.nearest(around, own_frames(trace))
    return [place_in_source(events.name_of(int(table.rows[place]))) if place >= 0 else None for place in own.tolist()]
