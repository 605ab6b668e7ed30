"""What an op has to compute and to move at least, by the shapes of what it was called with.

A multiplication and an addition count as two operations; every operand is read once and the result written once, so
the bytes are what a perfect kernel moves. What the shapes do not tell has no cost here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from profiler_doctor.analyzer.measures import conv_costs, pointwise_costs
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.operands import Operand

BACKWARD = "_backward"
ATTENTION = re.compile(
    r"^aten::(?:scaled_dot_product_attention|_scaled_dot_product_(?:flash|efficient|cudnn|fused)_?attention\w*"
    r"|_scaled_dot_product_attention_math\w*)$"
)


LARGEST = 1 << 60
"""Operations or bytes of one call from which on its shapes are damage: more than any device does in an hour."""


@dataclass(frozen=True)
class Cost:
    """Of one call. `kind`: matmul, convolution, attention or pointwise; `type` as the profiler names it."""

    kind: str
    type: str
    flops: int
    bytes: int


def cost(name: str, given: Sequence[Operand]) -> Cost | None:
    """The cost of one call of the op `name`; None where the op is not one of these, or its shapes do not tell."""
    found = _cost(name, given)
    return found if found is None or max(found.flops, found.bytes) < LARGEST else None


def _cost(name: str, given: Sequence[Operand]) -> Cost | None:
    if name in PRODUCTS:
        return _summed("matmul", given, PRODUCTS[name](given))
    if ATTENTION.match(name):
        return _summed("attention", given, _attention(given, name.endswith(BACKWARD)))
    if conv_costs.known(name):
        return _summed("convolution", given, conv_costs.work(name, given))
    moved = pointwise_costs.work(name, given)
    return Cost("pointwise", *moved) if moved else None


def _summed(kind: str, given: Sequence[Operand], work: tuple[int, int] | None) -> Cost | None:
    """With the bytes of the operands and of the result; `work`: operations, and elements of the result."""
    tensors = [operand for operand in given if operand.dims]
    if work is None or not tensors or any(width(operand.type) is None for operand in tensors):
        return None
    moved = sum(operand.size * (width(operand.type) or 0) for operand in tensors)
    kind_of_result = tensors[0].type
    return Cost(kind, kind_of_result, work[0], moved + work[1] * (width(kind_of_result) or 0))


def _product(batched: bool, added: bool) -> Callable[[Sequence[Operand]], tuple[int, int] | None]:
    """mm and bmm; with `added` their first operand is what is added to the product."""
    rank = 3 if batched else 2

    def work(given: Sequence[Operand]) -> tuple[int, int] | None:
        factors = given[1:3] if added else given[:2]
        if len(factors) < 2 or any(len(factor.dims) != rank for factor in factors):
            return None
        (left, right) = (factor.dims for factor in factors)
        if left[-1] != right[-2] or left[:-2] != right[:-2]:
            return None
        size = prod(left[:-1]) * right[-1]
        return 2 * size * left[-1], size

    return work


def _vector(given: Sequence[Operand]) -> tuple[int, int] | None:
    matrix = next((operand.dims for operand in given if len(operand.dims) == 2), None)
    return (2 * prod(matrix), matrix[0]) if matrix else None


def _linear(given: Sequence[Operand]) -> tuple[int, int] | None:
    """x[…, k] · wᵀ[n, k] + b[n]."""
    if len(given) < 2 or not given[0].dims or len(given[1].dims) != 2 or given[0].dims[-1] != given[1].dims[1]:
        return None
    size = prod(given[0].dims[:-1]) * given[1].dims[0]
    return 2 * size * given[1].dims[1], size


def _attention(given: Sequence[Operand], backward: bool) -> tuple[int, int] | None:
    """softmax(q·kᵀ)·v over […, tokens, width]; backward makes five products of that size, as flash attention does."""
    tensors = given[1:4] if backward else given[:3]
    if len(tensors) < 3 or any(len(tensor.dims) < 3 for tensor in tensors):
        return None
    query, key, value = (tensor.dims for tensor in tensors)
    if query[-1] != key[-1] or key[-2] != value[-2]:
        return None
    scores = prod(query[:-1]) * key[-2]
    if backward:
        return 2 * scores * (3 * query[-1] + 2 * value[-1]), prod(query) + prod(key) + prod(value)
    return 2 * scores * (query[-1] + value[-1]), prod(query[:-1]) * value[-1]


PRODUCTS: dict[str, Callable[[Sequence[Operand]], tuple[int, int] | None]] = {
    "aten::mm": _product(batched=False, added=False),
    "aten::addmm": _product(batched=False, added=True),
    "aten::_addmm_activation": _product(batched=False, added=True),
    "aten::bmm": _product(batched=True, added=False),
    "aten::baddbmm": _product(batched=True, added=True),
    "aten::mv": _vector,
    "aten::addmv": _vector,
    "aten::linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
}
