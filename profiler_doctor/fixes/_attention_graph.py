"""Attention that is written out op by op, found in a graph of torch's ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from profiler_doctor.fixes._attention_equations import Order, of_scores, of_values
from profiler_doctor.fixes._graph_nodes import (
    Node,
    all_before,
    changed_by,
    in_place,
    is_node,
    name_of_any,
    switches_a_mode,
)
from profiler_doctor.fixes._graph_values import CASTS, alike, argument, constant, is_number, op_of, value_of

HIDING = -1e4
"""A number at or below this that is put in the place of a score hides it: exp(-10000) is 0 in every type."""
WITHOUT_EFFECT = (
    "view", "reshape", "mean", "sum", "transpose", "permute", "squeeze", "unsqueeze", "getitem", "detach", "div",
    *CASTS,
)  # fmt: skip
"""What torch does to attention weights that nobody takes, as nn.MultiheadAttention does."""


@dataclass(frozen=True)
class Mask:
    """One thing done to scores beside scaling: `factor`·`node` is added, or `value` put where `node` is true."""

    kind: str
    """add, hide where it is true, hide where it is false (`show`)"""
    node: Node
    number: float
    """The factor, or the value."""


@dataclass(frozen=True)
class Operand:
    """A factor of a product, and the order of its dimensions that makes them (…, tokens, features); None: it is so."""

    node: Node
    order: Order = None


@dataclass(frozen=True)
class Scores:
    """A product of queries and keys, and what was done to it before the softmax."""

    query: Operand
    key: Operand
    scale: float = 1.0
    scalers: tuple[tuple[Node, bool], ...] = ()
    """Tensors of one number, and whether the scores are divided by it."""
    masks: tuple[Mask, ...] = ()
    nodes: tuple[Node, ...] = ()

    def scaled(self, factor: float) -> Scores:
        """Multiplied, masks and all."""
        masks = tuple(replace(mask, number=mask.number * factor) for mask in self.masks)
        return replace(self, scale=self.scale * factor, masks=masks)


@dataclass(frozen=True)
class Site:
    """One attention, from the product of queries and keys to that of weights and values."""

    scores: Scores
    value: Operand
    back: Order
    """The order of dimensions that the output has; None: (…, tokens, features)."""
    dropout: float
    output: Node
    nodes: tuple[Node, ...]
    """All that one call replaces; the output is the last."""


def sites(graph: Any) -> list[Site]:
    """All attentions of a graph whose scores and weights nothing else uses. Changes names of values, not the program.

    Nodes must have torch.compile's `example_value`.
    """
    _use_the_result_of_in_place_ops(graph)
    dead = _dead(graph)
    found = [_site(node, dead) for node in graph.nodes if op_of(node) == "softmax"]
    places = {node: place for place, node in enumerate(graph.nodes)}
    return [site for site in found if site is not None and not _disturbed(graph, site, places)]


def layers_with_unused_weights(graph: Any) -> list[Node]:
    """Calls that nn.MultiheadAttention makes, whose weights nobody takes though they are asked for."""
    dead = _dead(graph)
    return [node for node in graph.nodes if name_of_any(node) == LAYER and _gives_unused_weights(node, dead)]


LAYER = "multi_head_attention_forward"


def _gives_unused_weights(node: Node, dead: frozenset[Node]) -> bool:
    plain = len(node.args) == ARGUMENTS_BY_PLACE and not any(node.args[BIASES_AND_ZEROS])
    taken = {user.args[1] if name_of_any(user) == "getitem" else None for user in _users(node, dead)}
    return plain and node.kwargs.get("need_weights") is True and taken == {0}


ARGUMENTS_BY_PLACE, BIASES_AND_ZEROS = 13, slice(7, 10)
"""What nn.MultiheadAttention gives without a name; among it further keys, which a token sees whatever is masked."""


def _site(softmax: Node, dead: frozenset[Node]) -> Site | None:
    given, dim = argument(softmax, 0, "input"), argument(softmax, 1, "dim")
    whole = value_of(given)
    if whole is None or dim not in (-1, whole.dim() - 1) or not alike(softmax, given):
        return None
    scores, after = _scores(given, dead), _after(softmax, dead)
    if scores is None or after is None or not 2 <= whole.dim() <= MOST_DIMS:
        return None
    dropout, weights, output = after
    value = _value_product(weights[-1], output)
    if value is None or value[0].node in weights or value_of(output).dtype != whole.dtype:
        return None
    nodes = (*scores.nodes, *weights, output)
    others = [mask.node for mask in scores.masks] + [scaler for scaler, _ in scores.scalers]
    if all_before(others).intersection(nodes):  # scores added to themselves
        return None
    return Site(scores, value[0], value[1], dropout, output, nodes)


MOST_DIMS = 4
"""Batch, heads, tokens, features: what torch's fused kernels take."""


def _scores(node: Node, dead: frozenset[Node]) -> Scores | None:
    """What the value of a node is as scores; None: no such thing, or something else uses it too."""
    if not is_node(node) or len(_users(node, dead)) != 1:
        return None
    product = _score_product(node)
    if product is not None:
        return replace(product, nodes=(node,))
    for inner, step in _steps(node):
        before = _scores(inner, dead) if is_node(inner) and alike(inner, node) else None
        done = _done(before, step) if before is not None else None
        if done is not None:
            return replace(done, nodes=(*done.nodes, node))
    return None


def _score_product(node: Node) -> Scores | None:
    name = op_of(node)
    if name in ("matmul", "bmm"):
        return _product(argument(node, 0, "input"), argument(node, 1, "other" if name == "matmul" else "mat2"))
    if name == "baddbmm":
        bias = argument(node, 0, "input")
        beta, alpha = node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1)
        found = _product(argument(node, 1, "batch1"), argument(node, 2, "batch2"))
        if found is None or not is_number(alpha) or not is_number(beta) or alpha <= 0:
            return None
        masks = (Mask("add", bias, float(beta)),) if beta else ()
        return replace(found, scale=float(alpha), masks=masks)
    if name == "einsum":
        equation, factors = _einsum(node)
        orders = of_scores(equation)
        if orders is not None and len(factors) == 2:
            return Scores(Operand(factors[0], orders[0]), Operand(factors[1], orders[1]))
    return None


def _product(left: Any, right: Any) -> Scores | None:
    ranks = [value_of(factor).dim() if value_of(factor) is not None else 0 for factor in (left, right)]
    if not all(2 <= rank <= MOST_DIMS for rank in ranks):
        return None
    last = ranks[1]
    return Scores(Operand(left), Operand(right, (*range(last - 2), last - 1, last - 2)))


def _value_product(weights: Node, output: Node) -> tuple[Operand, Order] | None:
    """The values, and the order of the output's dimensions."""
    name = op_of(output)
    if name in ("matmul", "bmm"):
        value = argument(output, 1, "other" if name == "matmul" else "mat2")
        fits = argument(output, 0, "input") is weights and value_of(value) is not None and value_of(value).dim() >= 2
        return (Operand(value), None) if fits else None
    if name == "einsum":
        equation, factors = _einsum(output)
        orders = of_values(equation)
        if orders is not None and len(factors) == 2 and factors[0] is weights:
            return Operand(factors[1], orders[0]), orders[1]
    return None


def _einsum(node: Node) -> tuple[str, list[Node]]:
    equation, *factors = node.args
    if len(factors) == 1 and isinstance(factors[0], list | tuple):
        factors = list(factors[0])
    return str(equation), list(factors)


Step = tuple[str, Any, float]
"""What is done to scores: scale (a number), scaler (a tensor; 1: divided by), add, hide, show, none."""


def _steps(node: Node) -> Iterator[tuple[Any, Step]]:
    """What an op may have been done to, and what it then did."""
    name = op_of(node)
    one, other = argument(node, 0, "input"), argument(node, 1, "other")
    if name in CASTS:
        yield one, ("none", None, 0.0)
    elif name in ("mul", "div") and "rounding_mode" not in node.kwargs:
        yield one, _scaling(other, divides=name == "div")
        if name == "mul":
            yield other, _scaling(one, divides=False)
    elif name in ("add", "sub") and node.kwargs.get("alpha", 1) == 1:
        yield one, ("add", other, 1.0 if name == "add" else -1.0)
        if name == "add" and not in_place(node):
            yield other, ("add", one, 1.0)
    elif name == "masked_fill":
        yield one, ("hide", argument(node, 1, "mask"), constant(argument(node, 2, "value")))
    elif name == "where" and node.op == "call_function":
        first, second = argument(node, 1, "input"), argument(node, 2, "other")
        yield first, ("show", argument(node, 0, "condition"), constant(second))
        yield second, ("hide", argument(node, 0, "condition"), constant(first))


def _scaling(by: Any, *, divides: bool) -> Step:
    if is_number(by) and by > 0:
        return "scale", None, 1 / by if divides else float(by)
    value = value_of(by)
    if value is not None and value.numel() == 1:
        return "scaler", by, float(divides)
    return "unknown", by, 0.0


def _done(scores: Scores, step: Step) -> Scores | None:
    kind, node, number = step
    if kind == "none":
        return scores
    if kind == "scale":
        scaled = scores.scaled(number)
        return scaled if all(mask.kind == "add" or mask.number <= HIDING for mask in scaled.masks) else None
    if kind == "scaler" and not scores.masks:
        return replace(scores, scalers=(*scores.scalers, (node, bool(number))))
    tensor = value_of(node)
    if kind == "add" and tensor is not None and tensor.is_floating_point():
        return replace(scores, masks=(*scores.masks, Mask(kind, node, number)))
    if kind in ("hide", "show") and tensor is not None and number <= HIDING:
        return replace(scores, masks=(*scores.masks, Mask(kind, node, number)))
    return None


def _after(softmax: Node, dead: frozenset[Node]) -> tuple[float, tuple[Node, ...], Node] | None:
    """How much of the weights is dropped, the nodes that are weights, and the one user of the last of them."""
    dropout, weights = 0.0, [softmax]
    while len(users := _users(weights[-1], dead)) == 1:
        user = users[0]
        if op_of(user) in CASTS and alike(user, softmax) and argument(user, 0, "input") is weights[-1]:
            weights.append(user)
        elif op_of(user) == "dropout" and not dropout:
            share, training = (
                argument(user, 1, "p", 0.5),
                argument(user, 2, "training", user.kwargs.get("train", True)),
            )
            if not is_number(share):
                return None
            dropout = float(share) if training else 0.0
            weights.append(user)
        else:
            return dropout, tuple(weights), user
    return None


def _use_the_result_of_in_place_ops(graph: Any) -> None:
    """`x.add_(y)` gives x: who takes x after it takes the result then, so that the order can be read from the users."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        changed = changed_by(node)
        if changed is not None and in_place(node) and is_node(changed):
            for user in [user for user in changed.users if places[user] > places[node]]:
                user.replace_input_with(changed, node)


def _disturbed(graph: Any, site: Site, places: dict[Node, int]) -> bool:
    """Whether between the first and the last op something is changed in place, or a mode switched."""
    own, first, last = set(site.nodes), min(places[node] for node in site.nodes), places[site.output]
    between = [node for node in graph.nodes if first < places[node] < last and node not in own]
    return any(in_place(node) or switches_a_mode(node) for node in between)


def _dead(graph: Any) -> frozenset[Node]:
    """Nodes whose values nobody takes in the end."""
    dead: set[Node] = set()
    for node in reversed(graph.nodes):
        if name_of_any(node) in WITHOUT_EFFECT and all(user in dead for user in node.users):
            dead.add(node)
    return frozenset(dead)


def _users(node: Node, dead: frozenset[Node]) -> list[Node]:
    return [user for user in node.users if user not in dead]
