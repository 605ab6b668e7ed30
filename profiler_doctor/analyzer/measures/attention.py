"""Where attention is spelled out in ops: a softmax between two batched matrix products that fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.operands import operands, tensors
from profiler_doctor.analyzer.measures.ops import inside_named, named, ops
from profiler_doctor.analyzer.trace import Trace, measure

PRODUCTS = ("aten::bmm", "aten::baddbmm")
SOFTMAX = ("aten::_softmax", "aten::_safe_softmax")
NOT_SPELLED_OUT = named(
    r"scaled_dot_product", r"flash", r"efficient_attention", r"cudnn_attention", r"fmha", r"aiter", r"sage_?att",
    r"_native_multi_head_attention", r"_transformer_encoder_layer", r"^autograd::engine", r"Backward\d*$",
)  # fmt: skip
"""Ops whose inside is not the user's to rewrite, and the backward pass, which follows the forward one."""


@dataclass(frozen=True)
class Attention:
    """One attention in parts; all are rows of events. `between` are the ops from the scores to the weights."""

    scores: int
    softmax: int
    output: int
    between: tuple[int, ...]
    shape: tuple[int, ...]
    """Of the scores: …, queries, keys."""
    weights_used: bool
    """Whether an op after it, before the next product, reads the weights."""


@measure
def attentions(trace: Trace) -> tuple[Attention, ...]:
    """Every attention that is spelled out, in time order on each thread."""
    table = ops(trace)
    table = table[table["is_op"]]
    keys = table["row"][table["name"].isin((*PRODUCTS, *SOFTMAX))].to_numpy(np.int64)
    keys = keys[~inside_named(trace, keys, NOT_SPELLED_OUT)]
    chosen = table[table["row"].isin(keys)]
    found = []
    for _, thread in chosen.groupby("thread"):
        rows, names, steps = thread["row"].tolist(), thread["name"].tolist(), thread["step"].tolist()
        for place in range(1, len(rows) - 1):
            before, after = rows[place - 1], rows[place + 1]
            in_order = names[place] in SOFTMAX and names[place - 1] in PRODUCTS and names[place + 1] in PRODUCTS
            if in_order and steps[place - 1] == steps[place + 1] and _fits(trace, before, rows[place], after):
                end = rows[place + 2] if place + 2 < len(rows) and steps[place + 2] == steps[place + 1] else -1
                found.append(_attention(trace, table, (before, rows[place], after, end)))
    return tuple(found)


def _fits(trace: Trace, scores: int, softmax: int, output: int) -> bool:
    made, given, weights = _product(trace, scores), operands(trace, softmax), tensors(trace, output)[-2:]
    if made is None or len(weights) != 2 or len(given) < 2:
        return False
    dims = given[0].dims
    batch, queries, keys = made
    over_last = given[1].value in ("-1", str(len(dims) - 1))
    same = len(dims) >= 3 and (prod(dims[:-2]), *dims[-2:]) == (batch, queries, keys)
    return over_last and same and weights[0].dims == (batch, queries, keys)


def _product(trace: Trace, row: int) -> tuple[int, ...] | None:
    """The shape of a batched product: batch, rows, columns."""
    factors = [operand.dims for operand in tensors(trace, row)][-2:]
    if len(factors) != 2 or any(len(dims) != 3 for dims in factors):
        return None
    return factors[0][0], factors[0][1], factors[1][2]


def _attention(trace: Trace, table: pd.DataFrame, parts: Sequence[int]) -> Attention:
    scores, softmax, output, following = parts
    shape = operands(trace, softmax)[0].dims
    start, end = trace.events.start_ns, trace.events.end_ns
    thread = table[table["thread"] == int(trace.events.thread[softmax])]
    inner = thread[(thread["start_ns"] >= end[scores]) & (thread["end_ns"] <= start[output])]
    outer = inner[~inner["parent"].isin(inner["row"])]
    step = int(table.loc[table["row"] == output, "step"].iloc[0])
    later = thread[(thread["start_ns"] >= end[output]) & (thread["step"] == step)]
    later = later[later["start_ns"] < start[following]] if following >= 0 else later
    return Attention(
        scores=scores,
        softmax=softmax,
        output=output,
        between=tuple(row for row in outer["row"].tolist() if _touches(trace, row, shape)),
        shape=shape,
        weights_used=any(_reads(trace, row, shape) for row in later["row"].tolist()),
    )


def _touches(trace: Trace, row: int, shape: tuple[int, ...]) -> bool:
    """Whether an op works on the scores or on a mask for them."""
    return any(operand.dims[-2:] == shape[-2:] or operand.size == prod(shape) for operand in tensors(trace, row))


def _reads(trace: Trace, row: int, shape: tuple[int, ...]) -> bool:
    return any(operand.dims[-2:] == shape[-2:] and operand.size == prod(shape) for operand in tensors(trace, row))
