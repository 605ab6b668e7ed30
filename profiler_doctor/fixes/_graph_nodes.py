"""What the fixes that rewrite a graph of torch's ops ask of its nodes (those that torch.compile gives a backend)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any

Node = Any
"""torch.fx.Node"""
CALLS = ("call_function", "call_method")


def name_of_any(node: Node) -> str:
    """The name of the function or method that a node calls; empty: it calls none."""
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""


def is_node(value: Any) -> bool:
    """Whether an argument of a node is another node, and not a number or the like."""
    return hasattr(value, "users") and hasattr(value, "meta")


def changed_by(node: Node) -> Any:
    """What an op in place changes, and gives."""
    return node.kwargs["out"] if "out" in node.kwargs else node.args[0] if node.args else None


def seen_through(node: Node) -> list[Node]:
    """What an op in place changes, and the tensors of which that is a view, as far as the graph shows."""
    found = []
    changed = changed_by(node)
    while is_node(changed):
        found.append(changed)
        changed = changed.args[0] if name_of_any(changed) in VIEWS and changed.args else None
    return found


VIEWS = (
    "getitem", "view", "view_as", "reshape", "transpose", "permute", "mT", "squeeze", "unsqueeze", "expand",
    "expand_as", "select", "narrow", "detach", "flatten", "unflatten", "diagonal", "chunk", "split", "unbind",
    "getattr",
)  # fmt: skip


def all_before(nodes: Sequence[Node]) -> set[Node]:
    """These nodes and all that their values come from."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def changes_something(node: Node) -> bool:
    """Whether a node does more than give a value that depends on nothing but what it is given."""
    name = name_of_any(node)
    impure = node.op.startswith("call") and node.is_impure()
    return in_place(node) or impure or name in WITH_STATE or any(part in name for part in BY_CHANCE)


BY_CHANCE = ("rand", "drop", "bernoulli", "multinomial", "normal_", "gumbel", "rrelu", "fractional")
"""Parts of names of ops that draw random numbers."""
WITH_STATE = ("batch_norm", "instance_norm")
"""Ops that keep statistics of what they have seen."""


def in_place(node: Node) -> bool:
    """Whether a node changes a tensor it is given, by what torch calls its ops."""
    name = name_of_any(node)
    by_name = name.endswith("_") and not name.startswith("_") and name not in PYTHONS_OWN
    return by_name or name in IN_PLACE or name.startswith("_foreach") or "out" in node.kwargs or _asked_to(node)


def _asked_to(node: Node) -> bool:
    """Whether a function that can work in place is told so, by name or by place: `relu(x, True)`."""
    if "inplace" in node.kwargs:
        return bool(node.kwargs["inplace"])
    place = _place_of_inplace(node.target) if node.op == "call_function" else -1
    return 0 <= place < len(node.args) and bool(node.args[place])


@cache
def _place_of_inplace(function: Any) -> int:
    try:
        return list(inspect.signature(function).parameters).index("inplace")
    except (ValueError, TypeError):  # it has none, or is of C
        return -1


def may_share(node: Node) -> set[Node]:
    """All whose memory an op in place may change: whatever the changed tensor was made of, for it may be a view."""
    changed = changed_by(node)
    return all_before([changed] if is_node(changed) else node.all_input_nodes)


def switches_a_mode(node: Node) -> bool:
    """Whether a node turns gradients, autocast or the like on or off."""
    return name_of_any(node).startswith(("_set", "_enter", "_exit"))


PYTHONS_OWN = ("and_", "or_", "not_", "is_")
"""Operators that are named so because their plain names are words of the language."""
IN_PLACE = (
    "setitem", "iadd", "isub", "imul", "itruediv", "iand", "ior", "ixor", "ipow", "ifloordiv", "imod", "imatmul",
)  # fmt: skip


def erase_unused(graph: Any, node: Node) -> None:
    """Take a node out of the graph, and what it was made of, as far as nothing else uses it."""
    if node.users or node.op not in CALLS or changes_something(node):
        return
    inputs = list(node.all_input_nodes)
    graph.erase_node(node)
    for one in inputs:
        erase_unused(graph, one)
