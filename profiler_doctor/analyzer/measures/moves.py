"""The copies that ops make: how much each moves, and whether it changes the type or the order in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.operands import Operand, operands
from profiler_doctor.analyzer.measures.roofline import combinations
from profiler_doctor.analyzer.trace import Trace, measure

COPY = "aten::copy_"
"""What `to`, `contiguous`, `clone`, `float` and the like end in where they do anything."""
REORDER = "reorder"
"""Ops of the CPU's library that only bring a tensor into an order of its own have this in their name."""


@measure
def moves(trace: Trace) -> pd.DataFrame:
    """One row per call of `aten::copy_` or of an op that only reorders, in file order.

    Columns: row, bytes (of the source, 0 where the shapes do not tell), cast (the type changes), transform (the
    dimensions come to lie in another order in memory).
    """
    rows = trace.rows_named(lambda name: name == COPY or REORDER in name, ("cpu_op",))
    parts = []
    for same in combinations(trace, rows):
        moved, cast, transform = _move(trace.events.name_of(int(same[0])), operands(trace, int(same[0])))
        parts.append(pd.DataFrame({"row": same, "bytes": moved, "cast": cast, "transform": transform}))
    if not parts:
        empty = np.empty(0, np.int64)
        return pd.DataFrame({"row": empty, "bytes": empty, "cast": empty == 0, "transform": empty == 0})
    return pd.concat(parts).sort_values("row", ignore_index=True)


def _move(name: str, given: tuple[Operand, ...]) -> tuple[int, bool, bool]:
    if REORDER in name:
        return _bytes(given[0]) if given else 0, False, True
    if len(given) < 2 or width(given[1].type) is None:
        return 0, False, False
    target, source = given[0], given[1]
    return _bytes(source), target.type != source.type, _reordered(target, source)


def _bytes(operand: Operand) -> int:
    return operand.size * (width(operand.type) or 0)


def _reordered(target: Operand, source: Operand) -> bool:
    """Whether the same shape lies in another order; what is repeated (stride 0) or of one element has none."""
    if target.dims != source.dims or target.strides is None or source.strides is None:
        return False
    kept = [place for place, size in enumerate(target.dims) if size > 1]
    one, two = ([operand.strides[place] for place in kept] for operand in (target, source) if operand.strides)
    return 0 not in one + two and _order(one) != _order(two)


def _order(strides: list[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda place: -strides[place])


MOVES = Table(name="moves", of=moves)
