"""Which op of the forward pass an op of the backward pass works out the gradient of."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.measures.ops import outermost_named, parent_of
from profiler_doctor.analyzer.trace import Codes, Ints, Trace, measure

BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")


@measure
def forward_of(trace: Trace) -> Codes:
    """For every event row: the op of the forward pass whose gradient it helps to work out, else the row itself.

    Autograd gives both the same sequence number, and ops under a backward node take the node's. An op that makes no
    node shows the number of the next one to come, so of several ops the last to start has made it; the outermost op
    around that one with the same number is the one the user called.
    """
    events = trace.events
    found = np.arange(len(events), dtype=np.int32)
    rows = trace.rows("cpu_op")
    node = outermost_named(trace, rows, BACKWARD.search)
    numbers = events.column("Sequence number").at(np.arange(len(events)), -1)
    forward = rows[node < 0]
    forward = forward[np.argsort(events.start_ns[forward], kind="stable")]
    forward = forward[numbers[forward] >= 0]
    forward = forward[np.argsort(numbers[forward], kind="stable")]
    backward, wanted = rows[node >= 0], numbers[node[node >= 0]]
    if not len(forward) or not len(backward):
        return found
    last = forward[np.maximum(np.searchsorted(numbers[forward], wanted, side="right") - 1, 0)]
    made = np.where(numbers[last] == wanted, _outermost_alike(trace, last, numbers), backward)
    found[backward] = made
    return found


def _outermost_alike(trace: Trace, rows: Ints, numbers: Ints) -> Ints:
    """For each row the outermost op around it that has the same number."""
    parent = parent_of(trace)
    current = rows
    while True:
        above = parent[current]
        alike = (above >= 0) & (numbers[above] == numbers[current]) if len(current) else np.zeros(0, np.bool_)
        if not alike.any():
            return current
        current = np.where(alike, above, current)
