"""Copies that only put a tensor's numbers into another order in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.operands import Operand, tensors
from profiler_doctor.analyzer.measures.ops import outermost_named
from profiler_doctor.analyzer.trace import Trace, measure

COPY = "aten::copy_"
ASKED_BY = frozenset(
    ("aten::contiguous", "aten::clone", "aten::reshape", "aten::flatten", "aten::to", "aten::_to_copy", COPY)
)
"""Ops that copy a tensor for its layout alone; the outermost one is what the program asked for."""


@measure
def layout_copies(trace: Trace) -> pd.DataFrame:
    """Copies between two tensors of one shape and type that lie in memory in different orders, in file order.

    Columns: row (of the copy), asked (row of the outermost op that asked for nothing else), before, after (extents in
    the order in which the tensor lay in memory, slowest first, and in which it lies then), turn (after's directions as
    places in before), bytes (of the tensor).
    """
    rows = trace.rows_named(COPY.__eq__, ("cpu_op",))
    codes = [trace.events.text(name).at(rows, -1) for name in ("Input Dims", "Input type", "Input Strides")]
    _, first, which = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    changes = [_change(tensors(trace, row)) for row in rows[first].tolist()]
    found = np.array([change is not None for change in changes], np.bool_)[which.reshape(-1)]
    which, rows = which.reshape(-1)[found], rows[found]
    known = [change for place in which.tolist() if (change := changes[place]) is not None]
    return pd.DataFrame(
        {
            "row": rows,
            "asked": outermost_named(trace, rows, ASKED_BY.__contains__),
            "before": [change.before for change in known],
            "after": [change.after for change in known],
            "turn": [change.turn for change in known],
            "bytes": np.array([change.bytes for change in known], np.int64),
        }
    )


@dataclass(frozen=True)
class _Change:
    before: tuple[int, ...]
    after: tuple[int, ...]
    turn: tuple[int, ...]
    bytes: int


def memory_order(operand: Operand) -> tuple[int, ...] | None:
    """A tensor's directions as they lie in memory, slowest first, without those of extent 1.

    None where it has holes, or repeats itself.
    """
    if operand.strides is None:
        return None
    expected, order = 1, []
    for stride, place in sorted((stride, place) for place, stride in enumerate(operand.strides)):
        if operand.dims[place] == 1:
            continue
        if stride != expected:
            return None
        expected *= operand.dims[place]
        order.append(place)
    return tuple(reversed(order))


def _change(given: tuple[Operand, ...]) -> _Change | None:
    """What a copy changes; None where it does more than to change the order, or not even that."""
    if len(given) != 2 or given[0].dims != given[1].dims or given[0].type != given[1].type:
        return None
    target, source = given
    before, after = memory_order(source), memory_order(target)
    if before is None or after is None or before == after:
        return None
    extents = [tuple(target.dims[place] for place in order) for order in (before, after)]
    return _Change(extents[0], extents[1], tuple(before.index(place) for place in after), target.bytes)
