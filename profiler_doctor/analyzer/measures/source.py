"""The line of the user's own code that an op was called from."""

from __future__ import annotations

import numpy as np

from profiler_doctor.analyzer.measures.autograd import forward_of
from profiler_doctor.analyzer.measures.frames import frames, own_frames, place_in_source
from profiler_doctor.analyzer.measures.identity import called_at
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.twins import twins
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace


def source_of(trace: Trace, op_rows: Ints) -> list[tuple[str, int] | None]:
    """File and line of the user's own code that each op was called from; None where it is not known.

    The line is the one that calls, where our own capture tells it; else that of `function_of`.
    """
    recorded, rows = with_stacks(trace, forward_of(trace, np.asarray(op_rows, dtype=np.int64)))
    calls = called_at(trace) if recorded is not None and recorded is trace.stacks else {}
    framed = function_of(trace, op_rows)
    return [_exact(place, calls.get(row)) for place, row in zip(framed, rows.tolist(), strict=True)]


def function_of(trace: Trace, op_rows: Ints) -> list[tuple[str, int] | None]:
    """File and line of the innermost frame of the user's own code around each op: what ops of one function share.

    An op of the backward pass gets the place of its forward op. Where the trace has no stacks of its own, the second
    recording's (`trace.stacks`) counterpart is asked. The line is the function's first line: the profiler writes none
    inside it. None where it is not known.
    """
    recorded, rows = with_stacks(trace, forward_of(trace, np.asarray(op_rows, dtype=np.int64)))
    if recorded is None:
        return [None] * len(rows)
    table = frames(recorded)
    known = np.where(rows >= 0, rows, 0)
    around = table.around(recorded.events.thread[known].astype(np.int64), recorded.events.start_ns[known])
    places = table.nearest(np.where(rows >= 0, around, -1), own_frames(recorded))
    names = recorded.events.name_of
    return [place_in_source(names(int(table.rows[place]))) if place >= 0 else None for place in places]


def _exact(framed: tuple[str, int] | None, called: tuple[str, int] | None) -> tuple[str, int] | None:
    """The line that calls, where it lies in the same file as the frame that runs."""
    return called if framed is not None and called is not None and called[0] == framed[0] else framed


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
