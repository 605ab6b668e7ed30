"""Convolutions and matrix products by the type of what they multiply."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.measures.operands import ARGUMENTS, tensors
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.trace import Ints, Trace

PRODUCTS = re.compile(
    r"^aten::(?:linear|addmm|mm|bmm|baddbmm|addmv|mv|matmul|einsum|lstm|gru|scaled_dot_product_attention"
    r"|conv(?:_transpose)?[123]d|_?convolution|\w+_convolution|\w*convolution\w*_backward|\w+_linear)$"
)


def products_of(trace: Trace, types: tuple[str, ...]) -> Ints:
    """The outermost convolutions and products of the window with an operand of one of the types somewhere in them."""
    candidates = trace.rows_named(PRODUCTS.search, ("cpu_op",))
    codes = np.stack([trace.events.text(name).at(candidates, -1) for name in ARGUMENTS[:2]])
    _, first, which = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    fits = [any(operand.type in types for operand in tensors(trace, row)) for row in candidates[first].tolist()]
    chosen = candidates[np.array(fits, np.bool_)[which.reshape(-1)]]
    mask = np.zeros(len(trace.events), np.bool_)
    mask[chosen] = True
    return rows_in_window(trace, np.unique(outermost(trace, chosen, mask)))
