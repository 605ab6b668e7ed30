"""Which op of the forward pass an op of the backward pass works out the gradient of."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.measures.ops import outermost_named, parent_of
from profiler_doctor.analyzer.trace import EMPTY_COLUMN, Column, Ints, Trace, measure

BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")


def forward_of(trace: Trace, rows: Ints) -> Ints:
    """For each row: the op of the forward pass whose gradient it helps to work out, else the row itself (also -1).

    Autograd gives both the same sequence number, and ops under a backward node take the node's. An op that makes no
    node shows the number of the next one to come, so of several ops the last to start has made it; the outermost op
    around that one with the same number is the one the user called.
    """
    found = _forward(trace).at(rows, -1)
    return np.where(found >= 0, found, rows)


@measure
def _forward(trace: Trace) -> Column:
    """For the ops of the backward pass: the op of the forward pass, where it is known."""
    events = trace.events
    rows = trace.rows("cpu_op")
    node = outermost_named(trace, rows, BACKWARD.search)
    numbers = events.column("Sequence number")
    own = numbers.at(rows, -1)
    is_forward = (node < 0) & (own >= 0)
    forward, made = rows[is_forward], own[is_forward]
    order = np.argsort(events.start_ns[forward], kind="stable")
    order = order[np.argsort(made[order], kind="stable")]
    forward, made = forward[order], made[order]
    backward = rows[node >= 0]
    wanted = numbers.at(node[node >= 0], -1)
    if not len(forward) or not len(backward):
        return EMPTY_COLUMN
    place = np.maximum(np.searchsorted(made, wanted, side="right") - 1, 0)
    known = made[place] == wanted
    found = _outermost_alike(trace, forward[place[known]], wanted[known])
    return Column(backward[known].astype(np.int32), found.astype(np.int32))


def _outermost_alike(trace: Trace, rows: Ints, numbers: Ints) -> Ints:
    """For each row the outermost op around it that has the same number, which is given."""
    column = trace.events.column("Sequence number")
    current, climbing = rows.copy(), np.arange(len(rows))
    while len(climbing):
        above = parent_of(trace, current[climbing])
        alike = (above >= 0) & (column.at(np.maximum(above, 0), -1) == numbers[climbing])
        climbing, above = climbing[alike], above[alike]
        current[climbing] = above
    return current
