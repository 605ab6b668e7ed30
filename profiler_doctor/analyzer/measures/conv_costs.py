"""What a convolution has to compute, forward and backward, by its shapes and its stride, padding and dilation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import prod

from profiler_doctor.analyzer.measures.operands import Operand

STRIDE_FIRST = re.compile(r"^aten::(?:conv[123]d|_?convolution(?:_overrideable)?)$")
"""… (input, weight, bias, stride, padding, dilation, …)."""
PADDING_FIRST = re.compile(r"^aten::(?:mkldnn|miopen|miopen_depthwise)_convolution$|^mkldnn::_convolution_pointwise$")
"""… (input, weight, bias, padding, stride, dilation, …)."""
CUDNN = "aten::cudnn_convolution"
"""(input, weight, padding, stride, dilation, …): it has no bias."""
TRANSPOSED = re.compile(r"^aten::conv_transpose[123]d$")
"""… (input, weight, bias, stride, padding, output_padding, groups, dilation)."""
BACKWARD = "aten::convolution_backward"
"""(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)."""


def known(name: str) -> bool:
    """Whether the op is a convolution whose arguments stand in an order that is known."""
    return bool(STRIDE_FIRST.match(name) or PADDING_FIRST.match(name) or TRANSPOSED.match(name)) or name in (
        CUDNN,
        BACKWARD,
    )


def work(name: str, given: Sequence[Operand]) -> tuple[int, int] | None:
    """Operations, and elements of the result; None where the shapes and arguments do not tell.

    2 · (places at which the weight is laid on) · (elements of the weight): the places are those of the output, or, of
    a transposed convolution, of the input. A batch of one may be left out of the input's shape.
    """
    if name == BACKWARD:
        return _backward(given)
    if len(given) < 2 or not len(given[1].dims) - 1 <= len(given[0].dims) <= len(given[1].dims):
        return None
    transposed = bool(TRANSPOSED.match(name)) or _flag(given, 6 if "convolution" in name else -1)
    if transposed:
        return _transposed(name, given)
    spatial = _spatial(name, given)
    if spatial is None:
        return None
    image, weight = given[0].dims, given[1].dims
    places = prod(image[: -len(spatial) - 1]) * prod(spatial)
    return 2 * places * prod(weight), places * weight[0]


def _spatial(name: str, given: Sequence[Operand]) -> tuple[int, ...] | None:
    """The extent of the output in each direction."""
    first = 2 if name == CUDNN else 3
    stride_at, padding_at = (first, first + 1) if STRIDE_FIRST.match(name) else (first + 1, first)
    size, kernel = given[0].dims[-(len(given[1].dims) - 2) :], given[1].dims[2:]
    stride, dilation = (_numbers(given, at, len(kernel)) for at in (stride_at, first + 2))
    padding = _padding(given, padding_at, (kernel, stride, dilation))
    if stride is None or dilation is None or padding is None or 0 in stride:
        return None
    parts = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple((extent + pad - spread * (width - 1) - 1) // step + 1 for extent, width, step, pad, spread in parts)


def _padding(
    given: Sequence[Operand], at: int, shape: tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...] | None]
) -> tuple[int, ...] | None:
    """What is added in each direction, both sides together."""
    kernel, _, dilation = shape
    word = given[at].value if at < len(given) else ""
    if word == "valid":
        return (0,) * len(kernel)
    if word == "same" and dilation is not None:
        return tuple(spread * (width - 1) for width, spread in zip(kernel, dilation, strict=True))
    sides = _numbers(given, at, len(kernel))
    return tuple(2 * side for side in sides) if sides is not None else None


def _transposed(name: str, given: Sequence[Operand]) -> tuple[int, int] | None:
    plain = bool(TRANSPOSED.match(name))
    image, weight = given[0].dims, given[1].dims
    kernel = weight[2:]
    size = image[-len(kernel) :]
    at = (3, 4, 5, 7) if plain else (3, 4, 7, 5)
    stride, padding, extra, dilation = (_numbers(given, place, len(kernel)) for place in at)
    groups = _numbers(given, 6 if plain else 8, 1)
    if stride is None or padding is None or extra is None or dilation is None or groups is None:
        return None
    parts = zip(size, kernel, stride, padding, extra, dilation, strict=True)
    out = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, e, d in parts]
    batch = prod(image[: -len(kernel) - 1])
    return 2 * batch * prod(size) * prod(weight), batch * weight[1] * groups[0] * prod(out)


def _backward(given: Sequence[Operand]) -> tuple[int, int] | None:
    """The gradients of input and weight are a convolution each; the last argument says which are asked for."""
    if len(given) < 11 or len(given[2].dims) < 3 or len(given[0].dims) != len(given[2].dims):
        return None
    wanted = [word.strip() == "True" for word in given[10].value.strip("[]").split(",")]
    if len(wanted) != 3:
        return None
    result, image, weight = given[0].dims, given[1].dims, given[2].dims
    at = image if _flag(given, 7) else result
    places = prod(at[: -len(weight) + 1]) * prod(at[-len(weight) + 2 :])
    written = wanted[0] * prod(image) + wanted[1] * prod(weight) + wanted[2] * result[1]
    return 2 * places * prod(weight) * (wanted[0] + wanted[1]), written


def _flag(given: Sequence[Operand], at: int) -> bool:
    return 0 <= at < len(given) and given[at].value == "True"


def _numbers(given: Sequence[Operand], at: int, count: int) -> tuple[int, ...] | None:
    """A list argument, one number for each direction; a single number stands for all of them."""
    try:
        value = json.loads(given[at].value) if at < len(given) else None
    except ValueError:
        return None
    numbers = value if isinstance(value, list) else [value]
    if not all(isinstance(number, int) for number in numbers) or len(numbers) not in (1, count):
        return None
    return tuple(numbers) * (count if len(numbers) == 1 else 1)
