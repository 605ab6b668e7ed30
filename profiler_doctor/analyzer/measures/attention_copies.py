"""The copies that programs make of queries, keys and values just before attention, and of its result."""

from __future__ import annotations

from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.sdpa import Sdpa, sdpas
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.trace import Trace, measure

BEFORE, AFTER = 6, 2
"""Ops to look at: three tensors, each maybe repeated and copied; and the result."""
COPY, PRODUCT = "k", "L"
ASSIGNMENT = "aten::copy_"
"""What a program calls to write into a tensor that it keeps, such as a cache of keys: no copy to be spared."""


@measure
def attention_copies(trace: Trace) -> dict[int, tuple[int, ...]]:
    """Call of scaled_dot_product_attention → the copies around it; rows. Only calls that have some before them.

    Those before the call back to the last product, and behind it up to the next one, of tensors as large as one of its
    operands or its result, that lay in an order that attention takes as it is.
    """
    around = {call.row: _copies(trace, call) for call in sdpas(trace)}
    return {call: rows for call, rows in around.items() if rows}


def _copies(trace: Trace, call: Sdpa) -> tuple[int, ...]:
    called = sequence(trace)
    place = int(called.owner[call.row])
    if place < 0 or int(called.rows[place]) != call.row:
        return ()
    sizes = {call.query.size, call.key.size, call.value.size}
    before = _towards_product(trace, range(place - 1, max(place - 1 - BEFORE, -1), -1), sizes)
    result = call.query.size // call.query.dims[-1] * call.value.dims[-1]
    after = _towards_product(trace, range(place + 1, min(place + 1 + AFTER, len(called.rows))), {result})
    return (*before[::-1], *after) if before else ()


def _towards_product(trace: Trace, places: range, sizes: set[int]) -> list[int]:
    called, found = sequence(trace), []
    for place in places:
        if called.letters[place] == PRODUCT:
            break
        row = int(called.rows[place])
        given = tensors(trace, row)
        copies = called.letters[place] == COPY and trace.events.name_of(row) != ASSIGNMENT
        if copies and given and given[0].size in sizes:
            in_order = given[0].strides is None or given[0].strides[-1] == 1
            found += [row] if in_order else []
    return found
