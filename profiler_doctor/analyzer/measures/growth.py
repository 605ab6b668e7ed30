"""Tensors that grow by concatenation: each turn copies all that is there already, to add a little to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from profiler_doctor.analyzer.measures.operands import list_dims, operands
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.trace import Ints, Trace, measure

CAT = "aten::cat"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Link:
    """One concatenation of a chain."""

    row: int
    given: Shape
    """What was there before."""
    result: Shape

    @property
    def new_share(self) -> float:
        """How much of the result is new."""
        old, whole = np.prod(self.given, dtype=float), np.prod(self.result, dtype=float)
        return float(1 - old / whole) if whole else 1.0

    @property
    def turns(self) -> int:
        """How many pieces of the size of the new one it holds."""
        return round(1 / self.new_share) if self.new_share else 0


@dataclass(frozen=True)
class Chain:
    """Concatenations each of which takes what the one before gave."""

    links: list[Link] = field(default_factory=list)


@measure
def chains(trace: Trace) -> tuple[Chain, ...]:
    """All of them in the judged window, in order of their first link; those of one link too.

    Told by the shapes: the first concatenation on the thread after one that gives a shape, and takes that very shape.
    """
    rows = rows_in_window(trace, trace.rows_named(CAT.__eq__, ("cpu_op",)))
    rows = rows[np.argsort(trace.events.start_ns[rows], kind="stable")]
    found: list[Chain] = []
    open_at: dict[tuple[int, Shape], Chain] = {}
    for row, thread in zip(rows.tolist(), trace.events.thread[rows].tolist(), strict=True):
        shapes, result = _shapes(trace, row)
        known = [shape for shape in shapes if (thread, shape) in open_at]
        given = max(known or shapes, key=np.prod, default=None)
        if given is None or result is None or len(shapes) < 2:
            continue
        chain = open_at.pop((thread, given), None) if known else None
        if chain is None:
            chain = Chain()
            found.append(chain)
        chain.links.append(Link(row, given, result))
        open_at[thread, result] = chain
    return tuple(found)


def used_between(trace: Trace, chain: Chain) -> int:
    """How many links gave something that another op took before the next link took it."""
    shapes = trace.events.text("Input Dims")
    table = ops(trace)
    mine = table[table["is_op"] & (table["thread"] == int(trace.events.thread[chain.links[0].row]))]
    rows, starts = mine["row"].to_numpy(np.int64), mine["start_ns"].to_numpy()
    used = 0
    for link, following in zip(chain.links, chain.links[1:], strict=False):
        first = np.searchsorted(starts, trace.events.ends_at(link.row))
        between = rows[first : np.searchsorted(starts, trace.events.start_ns[following.row])]
        used += _take(shapes.table or (), np.unique(shapes.at(between, -1)), link.result)
    return used


def _take(texts: tuple[str, ...], codes: Ints, shape: Shape) -> bool:
    wanted = ",".join(map(str, shape))
    return any(f"[{wanted}]" in texts[code].replace(" ", "") for code in codes.tolist() if code >= 0)


def _shapes(trace: Trace, row: int) -> tuple[list[Shape], Shape | None]:
    """What is concatenated, and what it gives; None where the trace does not tell."""
    shapes = [shape for shape in list_dims(trace, row) if shape]
    given = operands(trace, row)
    axis = given[1].value if len(given) > 1 else ""
    same_rank = len({len(shape) for shape in shapes}) == 1
    if not same_rank or not axis.removeprefix("-").isdecimal() or abs(int(axis)) > len(shapes[0]):
        return shapes, None
    place = int(axis) % len(shapes[0])
    whole = sum(shape[place] for shape in shapes)
    return shapes, (*shapes[0][:place], whole, *shapes[0][place + 1 :])
