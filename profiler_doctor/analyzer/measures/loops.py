"""Where a program walks over a tensor and calls the same layers for one row of it after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.operands import Operand, operands, tensors
from profiler_doctor.analyzer.measures.ops import inside_named, is_op, named, ops
from profiler_doctor.analyzer.trace import Trace, measure

LAYERS = re.compile(r"^aten::(?:linear|matmul|mm|addmm|mv|addmv|bmm|einsum|conv(?:_transpose)?[123]d|_?convolution)$")
CELLS = re.compile(r"^aten::(?:lstm|gru|rnn_tanh|rnn_relu)_cell$")
PICKS = ("aten::select", "aten::slice")
EMBEDDING = "aten::embedding"
NOT_FORWARD = named(LOADER.pattern, r"^autograd::engine", r"Backward\d*$", r"^Optimizer\.")
NOTHING = Operand((), "", None, "")
LOOK_AHEAD = 12
"""Ops between picking a row and the layer that takes it (views, casts, scaling) that are looked through."""


@dataclass(frozen=True)
class Turn:
    """One turn of such a loop."""

    start: int
    """Row of the op that picked; of the layer itself, where all rows were picked by one op before."""
    layer: int
    """Row of the op that took the picked row."""
    step: int
    index: int
    """Which row was picked; -1 where it is not known."""
    rows: int
    """How many rows there are to pick."""
    alone: bool
    """Whether the layer took it as a batch of one."""
    key: tuple[object, ...]
    """Equal for the turns of one loop: the layer's name and shapes, and the shape that was picked from."""


@dataclass(frozen=True)
class _Pick:
    """What one op took out of a tensor: one of `rows` along `axis`, which has the shape and type of `given`."""

    given: Operand
    axis: int
    index: int
    rows: int


@measure
def outer_ops(trace: Trace) -> pd.DataFrame:
    """The ops that no other op called, in time order per thread: columns of `ops`."""
    table = ops(trace)
    parent = table["parent"].to_numpy()
    outer: pd.DataFrame = table[table["is_op"] & ~((parent >= 0) & is_op(trace)[parent])]
    return outer


@measure
def forward_ops(trace: Trace) -> pd.DataFrame:
    """As `outer_ops`, without the loader's, the optimizer's and autograd's."""
    table = outer_ops(trace)
    forward: pd.DataFrame = table[~inside_named(trace, table["row"].to_numpy(), NOT_FORWARD)]
    return forward


@measure
def turns(trace: Trace) -> tuple[Turn, ...]:
    """Every time that one row of a tensor went into a layer or a recurrent cell without company of its own size."""
    found: list[Turn] = []
    for _, thread in forward_ops(trace).groupby("thread"):
        rows, names, steps = thread["row"].tolist(), thread["name"].tolist(), thread["step"].tolist()
        for place, name in enumerate(names):
            pick = _pick(trace, rows[place]) if name in PICKS else None
            layer = _takes(trace, rows[place + 1 : place + 1 + LOOK_AHEAD], pick) if pick else -1
            if pick and layer >= 0:
                found.append(_turn(trace, (rows[place], layer), steps[place], pick))
    return (*found, *_unbound(trace))


def _pick(trace: Trace, row: int) -> _Pick | None:
    arguments = operands(trace, row)
    if len(arguments) < 3 or len(arguments[0].dims) < 2 or not all(_is_int(one.value) for one in arguments[1:3]):
        return None
    base, axis, index = arguments[0], int(arguments[1].value) % len(arguments[0].dims), int(arguments[2].value)
    until = [one.value for one in arguments[3:5]]
    if trace.events.name_of(row) == "aten::slice" and until != [str(index + 1), "1"]:
        return None
    shape = base.dims[:axis] + base.dims[axis + 1 :]
    return _Pick(Operand(shape, base.type, None, ""), axis, index, base.dims[axis])


def _takes(trace: Trace, ahead: list[int], pick: _Pick) -> int:
    """The layer that takes the picked row as it is, or cast, scaled and reshaped by numbers; -1 for none."""
    for row in ahead:
        if _is_layer(trace, row):
            return row if _taken(trace, row).size == pick.given.size else -1
        if sum(operand.size == pick.given.size for operand in tensors(trace, row)) > 1:
            return -1  # joined with another tensor of its size: it is no longer the row alone
    return -1


def _is_layer(trace: Trace, row: int) -> bool:
    name = trace.events.name_of(row)
    return bool(CELLS.match(name) or LAYERS.match(name) or name == EMBEDDING)


def _taken(trace: Trace, layer: int) -> Operand:
    """A layer's input: its first tensor, an embedding's last one (the indices)."""
    arguments = tensors(trace, layer) or (NOTHING,)
    return arguments[-1] if trace.events.name_of(layer) == EMBEDDING else arguments[0]


def _turn(trace: Trace, rows: tuple[int, int], step: int, pick: _Pick) -> Turn:
    start, layer = rows
    name, shapes = trace.events.name_of(layer), tuple(operand.dims for operand in tensors(trace, layer))
    dims = _taken(trace, layer).dims
    unbatched = len(dims) < len(shapes[1]) if "conv" in name and len(shapes) > 1 else len(dims) == 1
    alone = pick.axis == 0 and not CELLS.match(name) and (dims[:1] == (1,) or unbatched)
    return Turn(start, layer, step, pick.index, pick.rows, alone, (name, shapes, pick.given.dims, pick.rows))


def _unbound(trace: Trace) -> list[Turn]:
    """Turns of a loop over a whole tensor (`for row in tensor`): one op picks all rows before it begins."""
    found: list[Turn] = []
    for _, group in forward_ops(trace).groupby(["thread", "step"]):
        rows, step = group["row"].tolist(), int(group["step"].iloc[0])
        for place, row in enumerate(rows):
            base = operands(trace, row)[:2] if trace.events.name_of(row) == "aten::unbind" else ()
            if len(base) == 2 and len(base[0].dims) >= 2 and base[1].value == "0":
                pick = _Pick(Operand(base[0].dims[1:], base[0].type, None, ""), 0, -1, base[0].dims[0])
                layers = [layer for layer in rows[place:] if _is_layer(trace, layer)]
                fed = [layer for layer in layers if _taken(trace, layer).size == pick.given.size]
                found += [_turn(trace, (layer, layer), step, pick) for layer in fed]
    return found


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
