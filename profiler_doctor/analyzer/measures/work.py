"""How many multiplications an op has to make, by the shapes of its operands."""

from __future__ import annotations

import json
from math import prod

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.operands import operands, tensors
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.trace import Trace, measure

PRODUCTS = ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm")


@measure
def multiplications(trace: Trace) -> dict[int, int]:
    """Op row → multiplications of matrix products (leaf ops) and forward convolutions; 0 where shapes are missing."""
    found = {row: _of_product(trace, row) for row in trace.rows_named(PRODUCTS.__contains__, ("cpu_op",)).tolist()}
    for call in convolutions(trace):
        if call.forward and not call.transposed:
            channels = call.input.dims[-len(call.weight.dims) + 1]
            found[call.row] = call.input.size // max(channels, 1) // _stride(trace, call.row) * call.weight.size
    return found


def multiplications_in(trace: Trace, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """For each of the op rows (none inside another) the multiplications of all ops inside it."""
    chosen = np.asarray(rows, dtype=np.int64)
    mask = np.zeros(len(trace.events), np.bool_)
    mask[chosen] = True
    known = multiplications(trace)
    inner = np.fromiter(known, np.int64, len(known))
    found = np.zeros(len(trace.events), np.int64)
    around = outermost(trace, inner, mask)
    np.add.at(found, around[around >= 0], np.fromiter(known.values(), np.int64, len(known))[around >= 0])
    return found[chosen]


def _of_product(trace: Trace, row: int) -> int:
    factors = tensors(trace, row)[-2:]
    return factors[0].size * factors[1].dims[-1] if len(factors) == 2 else 0


def _stride(trace: Trace, row: int) -> int:
    """By how much the strides of a convolution thin its result out."""
    arguments = operands(trace, row)
    text = arguments[3].value if len(arguments) > 3 else ""
    return max(prod(json.loads(text)), 1) if text.startswith("[") and text.endswith("]") else 1
