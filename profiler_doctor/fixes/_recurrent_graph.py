"""Loops over a recurrent cell in a graph of torch's ops, and one call of the whole layer in the place of each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from profiler_doctor.fixes._graph_nodes import (
    Node,
    all_before,
    changes_something,
    erase_unused,
    in_place,
    is_node,
    may_share,
    name_of_any,
    switches_a_mode,
)
from profiler_doctor.fixes._graph_values import argument, value_of

Tensor = Any
LAYERS = {"lstm_cell": "lstm", "gru_cell": "gru", "rnn_tanh_cell": "rnn_tanh", "rnn_relu_cell": "rnn_relu"}
"""torch's op for one time step → the one for all of them."""
ARGUMENTS = 6
"""Of a cell: input, state, two weights, two biases."""
LEAST = 4
"""Turns: of fewer the layer's own call saves little."""


class Layering:
    """The backend for torch.compile. Dynamo, which unrolls loops, calls it for each graph, and again for other
    shapes."""

    def __init__(self) -> None:
        self.places = 0
        """Loops that were replaced, in all graphs."""
        self._turns = 0

    def __call__(self, module: Any, _examples: Sequence[Any]) -> Callable[..., Any]:
        """What runs in the place of the graph."""
        for cells in loops(module.graph) if not _casts(module.graph) else ():
            if _replaced(module.graph, cells):
                self.places += 1
                self._turns += len(cells)
        module.graph.lint()
        module.recompile()
        forward: Callable[..., Any] = module.forward
        return forward

    @property
    def told(self) -> str:
        """What was done, for a report."""
        layers = "one call of a whole layer" if self.places == 1 else f"{self.places} calls of whole layers"
        return f"{self._turns} calls of recurrent cells became {layers}"


def _casts(graph: Any) -> bool:
    """Whether autocast may be on: it gives a layer another type than its cell."""
    import torch

    on = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    return on or any("autocast" in name_of_any(node) for node in graph.nodes)


def loops(graph: Any) -> list[list[Node]]:
    """The cells of each loop in the order of time: each goes on from the state of the one before, with its weights."""
    cells = [node for node in graph.nodes if _is_cell(node)]
    follows = {cell: before for cell in cells if (before := _before(cell)) is not None}
    next_of: dict[Node, list[Node]] = {}
    for cell, before in follows.items():
        next_of.setdefault(before, []).append(cell)
    found = []
    for first in cells:
        if len(next_of.get(follows.get(first), ())) != 1:
            chain = [first]
            while len(after := next_of.get(chain[-1], [])) == 1:
                chain += after
            found.append(chain)
    return [chain for chain in found if len(chain) >= LEAST]


def _is_cell(node: Node) -> bool:
    """Whether a node is a call of torch's own cell, with both biases or none."""
    own = name_of_any(node) in LAYERS and _is_torchs(node, name_of_any(node))
    return own and not node.kwargs and len(node.args) == ARGUMENTS and (node.args[4] is None) == (node.args[5] is None)


def _before(cell: Node) -> Node | None:
    """The cell whose state this one goes on from, where it has the same weights."""
    before: Node = None
    state = cell.args[1]
    if name_of_any(cell) == "lstm_cell":
        parts = [_part(part) for part in state]
        if [place for _, place in parts] == [0, 1] and parts[0][0] is parts[1][0]:
            before = parts[0][0]
    else:
        before = state
    same = is_node(before) and before.target is cell.target and before.args[2:] == cell.args[2:]
    return before if same else None


def _part(node: Node) -> tuple[Node | None, int]:
    """Of what a node is a part, and its place there."""
    return (node.args[0], node.args[1]) if is_node(node) and node.target is operator.getitem else (None, -1)


def _replaced(graph: Any, cells: Sequence[Node]) -> bool:
    """Put one call of the layer in the place of a loop, unless that could make a difference."""
    inputs, first = [cell.args[0] for cell in cells], cells[0]
    needed = all_before(inputs)
    if not _alike(inputs) or needed.intersection(cells) or _keeps_inner_state(cells) or _disturbed(graph, cells):
        return False
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in [node for node in graph.nodes if node in needed and places[node] > places[first]]:
        first.prepend(node)
    with graph.inserting_before(first):
        given = _whole(graph, inputs) or inputs
        layer = graph.call_function(run_layer, (LAYERS[name_of_any(first)], given, first.args[1], first.args[2:]))
        output = graph.call_function(operator.getitem, (layer, 0))
        states = [graph.call_function(operator.getitem, (layer, place)) for place in range(1, 1 + _states(first))]
        rows = graph.call_method("unbind", (output, 0))  # a row's own gradient would be as large as the output
    output.meta["example_value"] = _seen(cells[0]).expand(len(cells), *_seen(cells[0]).shape)
    _stacked_by_the_layer(graph, cells, output)
    for turn, cell in reversed(list(enumerate(cells))):
        _replace_turn(graph, cell, rows, turn, states if cell is cells[-1] else ())
    for node in (*inputs, rows, *states):
        erase_unused(graph, node)
    return True


def run_layer(kind: str, inputs: Any, state: Any, weights: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """The layer's output (time steps, batch, features) and its last states (batch, features).

    `inputs`: one tensor (time steps, batch, features) or one (batch, features) for each time step; `state`: one, or a
    pair for "lstm"; `weights`: as the cell is given them.
    """
    import torch

    sequence = torch.stack(list(inputs)) if isinstance(inputs, list | tuple) else inputs
    pair = isinstance(state, list | tuple)
    before = [one.unsqueeze(0).contiguous() for one in (state if pair else [state])]
    given = [weight for weight in weights if weight is not None]
    training = torch.is_grad_enabled()  # on a GPU, what is to be differentiated must be said to be training
    output, *after = getattr(torch, kind)(
        sequence, before if pair else before[0], given, len(given) > 2, 1, 0.0, training, False, False
    )
    return output, *(one.squeeze(0) for one in after)


def _states(cell: Node) -> int:
    return 2 if name_of_any(cell) == "lstm_cell" else 1


def _hidden(cell: Node) -> list[Node]:
    """The nodes that stand for a cell's output."""
    return [user for user in cell.users if _part(user) == (cell, 0)] if _states(cell) == 2 else [cell]


def _inner(cell: Node) -> list[Node]:
    """... and for the inner state that an LSTM has beside it."""
    return [user for user in cell.users if _part(user) == (cell, 1)] if _states(cell) == 2 else []


def _seen(cell: Node) -> Any:
    """What dynamo knows of a cell's output."""
    value = cell.meta["example_value"]
    return value[0] if _states(cell) == 2 else value


def _alike(inputs: Sequence[Node]) -> bool:
    values = [value_of(node) for node in inputs]
    return all(value is not None and value.dim() == 2 and value.shape == values[0].shape for value in values)


def _keeps_inner_state(cells: Sequence[Node]) -> bool:
    """Whether something else uses the inner state of a turn, which the layer tells of the last one alone."""
    return any(user is not after for cell, after in pairwise(cells) for node in _inner(cell) for user in node.users)


def _disturbed(graph: Any, cells: Sequence[Node]) -> bool:
    """Whether it matters that all inputs are read before the first turn: something changes them in between, or the
    states or weights, or chance is in them. Or whether an output is changed later: it is a part of the layer's."""
    nodes = list(graph.nodes)
    first, last = nodes.index(cells[0]), nodes.index(cells[-1])
    needed = all_before([argument for cell in cells for argument in cell.all_input_nodes])
    effects = [node for node in nodes[first : last + 1] if changes_something(node)]
    changed = any(node in needed or needed.intersection(may_share(node)) for node in effects)
    later = any(may_share(node).intersection(cells) for node in nodes[last + 1 :] if in_place(node))
    modes = _modes(graph)
    made = {modes[node] for node in (*needed, *cells) if node.op != "placeholder"}
    return changed or later or len(made) > 1


def _modes(graph: Any) -> dict[Node, int]:
    """For each node how many times a mode (gradients on or off) was switched before it."""
    return dict(zip(graph.nodes, accumulate(switches_a_mode(node) for node in graph.nodes), strict=True))


def _whole(graph: Any, inputs: Sequence[Node]) -> Node | None:
    """The one tensor whose time steps these are, in order and all of them; None: there is none."""
    source: Node = inputs[0].args[0] if inputs[0].target is operator.getitem else None
    ways: list[tuple[Node, int, Callable[[int], Any]]] = [
        (source, 0, lambda turn: turn),  # x[turn]
        (source, 1, lambda turn: (slice(None), turn)),  # x[:, turn]
    ]
    if is_node(source) and _is_torchs(source, "unbind"):
        dim = argument(source, 1, "dim", 0)
        ways = [(source.args[0], dim, lambda turn: turn)]
    for whole, dim, row in ways:
        value = value_of(whole)
        in_order = all(
            node.target is operator.getitem and node.args == (source, row(turn)) for turn, node in enumerate(inputs)
        )
        if in_order and value is not None and dim in (0, 1) and value.shape[dim] == len(inputs):
            return whole if dim == 0 else graph.call_method("transpose", (whole, 0, 1))
    return None


def _stacked_by_the_layer(graph: Any, cells: Sequence[Node], output: Node) -> None:
    """Where all outputs but the last are only stacked: the layer has done that, its output is the stack."""
    last = set(_hidden(cells[-1]))
    modes = _modes(graph)
    users = [user for node in last for user in node.users if modes[user] == modes[cells[-1]]]
    stacks = [user for user in users if _is_torchs(user, "stack") and _along(user) in (0, 1)]
    outputs = [_hidden(cell) for cell in cells]
    for stack in stacks:
        in_order = [[node] for node in stack.args[0]] == outputs
        others = {user for nodes in outputs[:-1] for node in nodes for user in node.users}
        if in_order and others <= {stack, *cells, *(part for cell in cells for part in cell.users)}:
            with graph.inserting_before(stack):
                turned = graph.call_method("transpose", (output, 0, 1)) if _along(stack) else output
                whole = graph.call_method("contiguous", (turned,)) if _along(stack) else output
            stack.replace_all_uses_with(whole)
            graph.erase_node(stack)
            return


def _is_torchs(node: Node, name: str) -> bool:
    """Whether a node calls torch's function of this name, or the method."""
    import torch

    return bool(node.target == (getattr(torch, name) if node.op == "call_function" else name))


def _along(stack: Node) -> int:
    """The dimension of torch.stack; -1: the tensors are given in another way."""
    given = stack.args and isinstance(stack.args[0], list | tuple) and "out" not in stack.kwargs
    dim = argument(stack, 1, "dim", 0)
    return dim if given and isinstance(dim, int) else -1


def _replace_turn(graph: Any, cell: Node, rows: Node, turn: int, states: Sequence[Node]) -> None:
    """Take one cell out. Its output is a row of the layer's; the last states are the layer's own."""
    for place, nodes in enumerate((_hidden(cell), _inner(cell))):
        for node in nodes:
            if not node.users:
                continue
            with graph.inserting_before(cell):
                new = states[place] if states else graph.call_function(operator.getitem, (rows, turn))
            new.meta["example_value"] = _seen(cell)
            node.replace_all_uses_with(new)
    for node in (*list(cell.users), cell):
        graph.erase_node(node)
