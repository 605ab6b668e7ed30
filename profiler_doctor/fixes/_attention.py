"""A backend for torch.compile: the graph as it is, with one call in the place of each attention written out."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from profiler_doctor.fixes._attention_call import attend, attend_in_layer, combined, sees
from profiler_doctor.fixes._attention_graph import (
    Mask,
    Operand,
    Site,
    layers_with_unused_weights,
    sites,
)
from profiler_doctor.fixes._graph_nodes import CALLS, Node, all_before, changes_something, erase_unused, seen_through

CAUSAL, SOME, NONE = "causal", "some", "none"
"""What a mask leaves to see (`_attention_call.sees`). Where it is not known, some tokens may see nothing."""
MOST_MASKS = 8
"""A program that has shown more masks than these, and as many as a third of its calls, makes a new one each time."""
EXACT_FROM = -1e9
"""A score that this is added to is this number, in float32, whatever it was: as if it had been put in its place."""


class Rewriting:
    """The backend. Dynamo calls it for each graph, and again for other shapes."""

    def __init__(self) -> None:
        self.places = 0
        """Attentions that were replaced, in all graphs."""
        self.graphs: list[Rewritten] = []

    def __call__(self, module: Any, _examples: Sequence[Any]) -> Callable[..., Any]:
        """What runs in the place of the graph."""
        found, layers = sites(module.graph), layers_with_unused_weights(module.graph)
        for layer in layers:
            layer.target = attend_in_layer
        self.places += len(layers)
        if not found:
            module.recompile()
            forward: Callable[..., Any] = module.forward
            return forward
        self.places += len(found)
        self.graphs.append(Rewritten(module, found))
        return self.graphs[-1]

    @property
    def told(self) -> str:
        """What was done, for a report."""
        causal = sum(plan.count(CAUSAL) for graph in self.graphs for plan in list(graph.variants)[:1])
        calls = "1 attention became one call" if self.places == 1 else f"{self.places} attentions became one call each"
        return f"{calls}, {causal} with is_causal=True" if causal else calls


class Rewritten:
    """One graph with calls of torch's own in it: one variant for each thing that its masks turn out to be."""

    def __init__(self, module: Any, found: list[Site]) -> None:
        self.variants: dict[tuple[str, ...], Callable[..., Any]] = {}
        self._module = module
        self._sites = found
        self._looks = [MaskLook(module, site) for site in found]

    def __call__(self, *inputs: Any) -> Any:
        """One call of the graph."""
        plan = tuple(look.sees(inputs) for look in self._looks)
        if plan not in self.variants:
            self.variants[plan] = _rewritten(self._module, self._sites, plan)
        return self.variants[plan](*inputs)


class MaskLook:
    """What the masks of one attention hide, looked at once and again when one of the tensors they come from changes."""

    def __init__(self, module: Any, site: Site) -> None:
        self._program, self._leaves = _mask_program(module, site)
        self._kinds = [(mask.kind, mask.number) for mask in site.scores.masks]
        self._dtype = site.output.meta["example_value"].dtype
        self._known: dict[tuple[Any, ...], tuple[list[Any], str]] = {}
        self._calls = self._misses = 0

    def sees(self, inputs: Sequence[Any]) -> str:
        """As `_attention_call.sees`; `none` too where it cannot be known without looking at each call."""
        if not self._kinds:
            return SOME
        if self._program is None:
            return NONE
        self._calls += 1
        leaves = [inputs[place] for place in self._leaves]
        key = tuple(map(_stamp, leaves))
        known = self._known.get(key)
        if known is not None and all(ref() is leaf for ref, leaf in zip(known[0], leaves, strict=True)):
            return known[1]
        if None in key or self._misses > max(MOST_MASKS, self._calls // 3):
            return NONE
        self._misses += 1
        found = self._looked(leaves)
        if len(self._known) == MOST_MASKS:
            self._known.clear()
        self._known[key] = [_reference(leaf) for leaf in leaves], found
        return found

    def _looked(self, leaves: Sequence[Any]) -> str:
        import torch

        assert self._program is not None
        with torch.no_grad():
            masks = zip(self._kinds, self._program(*leaves), strict=True)
            return sees(combined([(kind, mask, number) for (kind, number), mask in masks], self._dtype))


def _stamp(leaf: Any) -> Any:
    """By what a change of a value is known; None: there is no way to know of it."""
    import torch

    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_inference() or leaf.requires_grad:  # no version is kept, or each step of training makes a new one
        return None
    return id(leaf), leaf._version, leaf.data_ptr(), leaf.shape


def _reference(leaf: Any) -> Callable[[], Any]:
    import torch

    return weakref.ref(leaf) if isinstance(leaf, torch.Tensor) else lambda: leaf


def _mask_program(module: Any, site: Site) -> tuple[Callable[..., Sequence[Any]] | None, list[int]]:
    """What makes the masks from inputs of the graph, and which inputs; None: chance, or something else, is in it."""
    from torch import fx

    wanted = [mask.node for mask in site.scores.masks]
    needed = all_before(wanted)
    if any(node.op not in ("placeholder", *CALLS) or changes_something(node) for node in needed):
        return None, []
    if any(needed.intersection(seen_through(node)) for node in module.graph.nodes if changes_something(node)):
        return None, []
    graph, copies = fx.Graph(), dict[Node, Node]()
    holders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in module.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in wanted))
    leaves = [place for place, node in enumerate(holders) if node in needed]
    return fx.GraphModule(module, graph).forward, leaves


def _rewritten(module: Any, found: Sequence[Site], plan: Sequence[str]) -> Callable[..., Any]:
    """A copy of the graph with the attentions replaced that can be, by what their masks are known to leave."""
    from torch import fx

    graph, copies = fx.Graph(), dict[Node, Node]()
    graph.output(graph.graph_copy(module.graph, copies))
    for site, seen in zip(found, plan, strict=True):
        if _faithful(site, seen):
            _replace(graph, site, copies, seen)
    graph.lint()
    forward: Callable[..., Any] = fx.GraphModule(module, graph).forward
    return forward


def _faithful(site: Site, seen: str) -> bool:
    """Whether a token that may see nothing would get what it gets now: the mean of all, if its scores are all one."""
    if seen != NONE:
        return True
    puts = [mask.number for mask in site.scores.masks if mask.kind != "add"]
    exact = str(site.output.meta["example_value"].dtype) in ("torch.float32", "torch.bfloat16")
    return all(value == -math.inf or (exact and value <= EXACT_FROM) for value in puts)


def _replace(graph: Any, site: Site, copies: dict[Node, Node], seen: str) -> None:
    scores, output = site.scores, copies[site.output]
    with graph.inserting_before(output):
        query, key, value = (_in_order(graph, part, copies) for part in (scores.query, scores.key, site.value))
        for scaler, divides in scores.scalers:
            query = graph.call_method("div" if divides else "mul", (query, copies[scaler]))
        masks = () if seen == CAUSAL else tuple(_in_graph(mask, copies) for mask in scores.masks)
        how = (scores.scale, site.dropout, seen == CAUSAL, seen == NONE)
        new = graph.call_function(attend, (query, key, value, masks, how))
        if site.back is not None:
            new = graph.call_method("permute", (new, *site.back))
    output.replace_all_uses_with(new)
    for node in reversed([copies[node] for node in site.nodes]):
        _erase_with_users(graph, node)
    copies[site.output] = new  # it may be what the next attention is made of
    for mask in scores.masks:
        erase_unused(graph, copies[mask.node])


def _in_order(graph: Any, part: Operand, copies: dict[Node, Node]) -> Node:
    node = copies[part.node]
    return node if part.order is None else graph.call_method("permute", (node, *part.order))


def _in_graph(mask: Mask, copies: dict[Node, Node]) -> tuple[str, Node, float]:
    return mask.kind, copies[mask.node], mask.number


def _erase_with_users(graph: Any, node: Node) -> None:
    """A part of what was replaced. What uses it still gives a value that nobody takes."""
    for user in list(node.users):
        _erase_with_users(graph, user)
    graph.erase_node(node)
