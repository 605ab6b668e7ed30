"""What an op that works element by element has to move: its operands once, its result once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from profiler_doctor.analyzer.measures.element_types import FLOATING, SCALAR_TYPES, promoted, width
from profiler_doctor.analyzer.measures.operands import Operand

NAMES = {
    "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "celu", "ceil", "clamp", "clamp_max", "clamp_min", "clone",
    "copysign", "cos", "cosh", "deg2rad", "div", "elu", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fmod", "frac", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hypot",
    "leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2", "log_sigmoid", "logit", "masked_fill",
    "maximum", "minimum", "mish", "mul", "nan_to_num", "neg", "pow", "prelu", "reciprocal", "relu", "relu6",
    "remainder", "round", "rsqrt", "rsub", "selu", "sgn", "sigmoid", "sign", "silu", "sin", "sinh", "softplus",
    "softshrink", "sqrt", "square", "sub", "tan", "tanh", "threshold", "trunc", "where", "xlogy",
}  # fmt: skip
COMPARISONS = {
    "eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "logical_xor",
    "lt", "ne", "signbit",
}  # fmt: skip
"""Their result is bool, whatever they compare."""
GRADIENTS = {
    "elu_backward", "gelu_backward", "hardsigmoid_backward", "hardswish_backward", "hardtanh_backward",
    "leaky_relu_backward", "mish_backward", "sigmoid_backward", "silu_backward", "softplus_backward",
    "tanh_backward", "threshold_backward",
}  # fmt: skip
WRITES_ONLY = {"fill_", "zero_"}
COPY, CAST = "copy_", "_to_copy"


def work(name: str, given: Sequence[Operand]) -> tuple[str, int, int] | None:
    """Type of the result, operations (one for each element of it) and bytes; None for other ops and unknown shapes."""
    own = name.removeprefix("aten::")
    in_place = own.endswith("_")
    plain = own[:-1] if in_place else own
    tensors = [operand for operand in given if operand.dims]
    known = plain in NAMES or plain in COMPARISONS or plain in GRADIENTS or own in (*WRITES_ONLY, COPY, CAST)
    if own == name or not known or not tensors or any(width(operand.type) is None for operand in tensors):
        return None
    shape = _broadcast([operand.dims for operand in tensors])
    if shape is None:
        return None
    kind = _result(own, plain, given, tensors)
    read = tensors[1:] if own == COPY else () if own in WRITES_ONLY else tensors
    return kind, prod(shape), sum(_bytes_read(operand) for operand in read) + prod(shape) * (width(kind) or 0)


def _result(own: str, plain: str, given: Sequence[Operand], tensors: Sequence[Operand]) -> str:
    """The type of what is written."""
    if own == CAST:
        told = SCALAR_TYPES.get(given[1].value) if len(given) > 1 else None
        return told or tensors[0].type
    if own.endswith("_"):
        return tensors[0].type
    if plain in COMPARISONS:
        return "bool"
    valued = tensors[1:] if plain == "where" and len(tensors) > 1 else tensors
    kind = promoted([operand.type for operand in valued])
    return "float" if plain == "div" and kind not in FLOATING and "complex" not in kind else kind


def _bytes_read(operand: Operand) -> int:
    """An operand that is expanded along a direction (stride 0) is read once there."""
    strides = operand.strides or (1,) * len(operand.dims)
    own = (extent for extent, stride in zip(operand.dims, strides, strict=True) if stride != 0)
    return prod(own) * (width(operand.type) or 0)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of the result; None where the shapes do not fit each other."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    found = tuple(
        max((extent for extent in extents if extent != 1), default=1) for extents in zip(*padded, strict=True)
    )
    fits = all(extent in (1, whole) for shape in padded for extent, whole in zip(shape, found, strict=True))
    return found if fits else None
