"""The calls of scaled_dot_product_attention: what they were given, which of its implementations ran, and how long."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.operands import Operand, operands
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Ints, Trace, measure

CALL = "aten::scaled_dot_product_attention"
IMPLEMENTATION = re.compile(r"^aten::_scaled_dot_product_(?P<which>\w+)")
MASK, CAUSAL = 3, 5
"""Places among the arguments."""


@dataclass(frozen=True)
class Sdpa:
    """One call. `implementation`: flash_attention, efficient_attention, attention_math, …; "" unknown."""

    row: int
    implementation: str
    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None
    causal: bool
    """It was told so."""
    time_ns: int
    """Of its kernels where GPU work is linked, else of the call."""

    @property
    def pairs(self) -> int:
        """Queries times keys, over all heads and samples."""
        return self.query.size // max(self.query.dims[-1], 1) * self.key.dims[-2]

    @property
    def flops(self) -> int:
        """Of both products, all pairs."""
        return 2 * self.pairs * (self.query.dims[-1] + self.value.dims[-1])

    @property
    def bytes(self) -> int:
        """Queries, keys and values read, the result written."""
        result = self.query.size // max(self.query.dims[-1], 1) * self.value.dims[-1]
        elements = self.query.size + self.key.size + self.value.size + result
        return elements * (width(self.query.type) or 0)


@measure
def sdpas(trace: Trace) -> tuple[Sdpa, ...]:
    """The calls of the judged window whose shapes are known, in file order."""
    calls = rows_in_window(trace, trace.rows_named(CALL.__eq__, ("cpu_op",)))
    mask = np.zeros(len(trace.events), np.bool_)
    mask[calls] = True
    inner = trace.rows_named(IMPLEMENTATION.match, ("cpu_op",))
    around = outermost(trace, inner, mask)
    names = dict(zip(around[::-1].tolist(), trace.events.names_at(inner[::-1]), strict=True))
    times = _times(trace, calls)
    made = (_sdpa(trace, row, names.get(row, ""), times[row]) for row in calls.tolist())
    return tuple(call for call in made if call)


def _times(trace: Trace, calls: Ints) -> dict[int, int]:
    work = linked_work(trace)
    if not len(work):
        return dict(zip(calls.tolist(), np.maximum(trace.events.dur_ns[calls], 0).tolist(), strict=True))
    mask = np.zeros(len(trace.events), np.bool_)
    mask[calls] = True
    around = outermost(trace, work["op"].to_numpy(np.int64), mask)
    summed = work["dur_ns"].groupby(around).sum()
    return {row: int(summed.get(row, 0)) for row in calls.tolist()}


def _sdpa(trace: Trace, row: int, inner: str, time_ns: int) -> Sdpa | None:
    given = operands(trace, row)
    if len(given) <= CAUSAL or any(not 3 <= len(operand.dims) <= 4 or 0 in operand.dims for operand in given[:3]):
        return None
    found = IMPLEMENTATION.match(inner)
    return Sdpa(
        row=row,
        implementation=found["which"] if found else "",
        query=given[0],
        key=given[1],
        value=given[2],
        mask=given[MASK] if given[MASK].dims else None,
        causal=given[CAUSAL].value == "True",
        time_ns=time_ns,
    )
