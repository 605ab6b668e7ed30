"""What a graph of torch's ops tells of the values in it: an op by one name, its arguments, tensors and numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

from profiler_doctor.fixes._graph_nodes import CALLS, Node, is_node, name_of_any

SAME_OP = {
    "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "truediv": "div", "true_divide": "div",
    "multiply": "mul", "divide": "div", "subtract": "sub", "add_": "add", "sub_": "sub", "mul_": "mul", "div_": "div",
    "masked_fill_": "masked_fill",
}  # fmt: skip
KNOWN = (
    "matmul", "bmm", "baddbmm", "einsum", "add", "sub", "mul", "div", "masked_fill", "where", "softmax", "dropout",
    "to", "float", "type_as", "contiguous", "full", "tensor", "scalar_tensor", *SAME_OP,
)  # fmt: skip
CASTS = ("to", "float", "type_as", "contiguous")


def alike(one: Node, other: Node) -> bool:
    """Whether two values have the same shape and type. Shapes that vary are compared as they are written."""
    first, second = value_of(one), value_of(other)
    if first is None or second is None:
        return False
    return bool(first.dtype == second.dtype) and [str(n) for n in first.shape] == [str(n) for n in second.shape]


def op_of(node: Any) -> str:
    """The op of a node, by one name for all ways to write it; empty: one that means nothing here."""
    import torch

    if not is_node(node) or node.op not in CALLS:
        return ""
    name = name_of_any(node)
    owners = (torch, torch.nn.functional, operator)
    known = node.op == "call_method" or any(getattr(owner, name, None) is node.target for owner in owners)
    return SAME_OP.get(name, name) if known and name in KNOWN else ""


def argument(node: Node, place: int, name: str, otherwise: Any = None) -> Any:
    """What a node is given by its place, or else by its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, otherwise)


def value_of(node: Any) -> Any:
    """The tensor that stands for a node's value; None: it is none."""
    import torch

    value = node.meta.get("example_value") if is_node(node) else None
    return value if isinstance(value, torch.Tensor) else None


def constant(given: Any) -> float:
    """The number that an argument is, or a tensor of one that is made of it; NaN: it is not known."""
    if is_number(given):
        return float(given)
    name, tensor = op_of(given), value_of(given)
    if tensor is None or tensor.numel() != 1 or name not in ("full", "tensor", "scalar_tensor"):
        return math.nan
    number = argument(given, 1, "fill_value") if name == "full" else argument(given, 0, "data")
    return float(number) if is_number(number) else math.nan


def is_number(value: Any) -> bool:
    """Whether an argument is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
