"""A matrix product in half precision has a width that the tensor cores cannot take whole.

What it finds
    Products of a weight matrix (2-D, forward pass) in float16 or bfloat16 whose inner or output width, or the stride of
    whose rows, is no multiple of 8 (16 in int8), on NVIDIA GPUs, and which take at least 2 % of the GPU's work. The
    number of rows (tokens) does not matter: today's kernels cut it as they like.

Why it costs
    Tensor cores are fed in loads of 16 bytes. Where a row does not begin on such a border, the library has to choose a
    kernel with narrower loads, which can take several times as long. The usual case is a vocabulary of 30522 or 50257.

What to do
    Make the layer as wide as the next multiple of 64: `model.resize_token_embeddings(n, pad_to_multiple_of=64)` in
    Hugging Face models, or `torch.nn.functional.pad` on the weight once. Cut the extra columns off after the product.

When not to
    Measure first: newer libraries pad some shapes on their own, and then nothing is won. How much a width costs only a
    trial can tell, so no time is promised.

Source
    NVIDIA, Matrix Multiplication Background (deep learning performance guide), tensor core section; RULES.md, KRN001.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.operands import Operand, tensors
from profiler_doctor.analyzer.measures.ops import inside_named, named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.products import capability, kernels_of, products
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

WHOLE = {"c10::Half": 8, "c10::BFloat16": 8, "half": 8, "signed char": 16}
"""Type → elements in a load of 16 bytes."""
TENSOR_CORES_SINCE = (7, 0)
BACKWARD = named(r"^autograd::engine|Backward\d*$")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each shape that takes enough time."""
    known = capability(trace)
    if known is None or known < TENSOR_CORES_SINCE:
        return
    table = products(trace)
    table = table[
        table["type"].isin(WHOLE) & table["name"].isin(("aten::mm", "aten::addmm", "aten::_addmm_activation"))
    ]
    table = table[~inside_named(trace, table["op"].to_numpy(np.int64), BACKWARD)]
    shapes = [_shape(trace, row, limits["rows"]) for row in table["op"].tolist()]
    total = int(linked_work(trace)["dur_ns"].sum())
    for shape, group in table.assign(shape=shapes).groupby("shape"):
        if shape and group["time_ns"].sum() >= limits["share"] * total:
            yield _sighting(trace, group, total)


def _shape(trace: Trace, row: int, least_rows: float) -> str:
    """The shape and its widths that do not fit, "" where all do."""
    factors = tensors(trace, row)[-2:]
    if len(factors) < 2 or any(len(factor.dims) != 2 for factor in factors) or factors[0].dims[0] < least_rows:
        return ""
    odd = _odd(factors[0], factors[1])
    (rows, inner), (_, out) = factors[0].dims, factors[1].dims
    return f"{rows}×{inner} by {inner}×{out}" if odd else ""


def _odd(left: Operand, right: Operand) -> list[int]:
    """Widths and row strides that are no multiple of a whole load."""
    leading = [max(factor.strides) for factor in (left, right) if factor.strides and min(factor.dims) > 1]
    return sorted({width for width in (left.dims[1], right.dims[1], *leading) if width % WHOLE[left.type]})


def _sighting(trace: Trace, group: pd.DataFrame, total: int) -> Sighting:
    row, time = int(group["op"].iloc[0]), int(group["time_ns"].sum())
    left, right = tensors(trace, row)[-2:]
    odd = _odd(left, right)
    return Sighting(
        message=f"A product of {group['shape'].iloc[0]} in {left.type.removeprefix('c10::')} takes {time / total:.1%} "
        f"of the GPU's work, and {' and '.join(map(str, odd))} is no multiple of {WHOLE[left.type]}.",
        where=where_of(trace, row),
        evidence={
            "calls": len(group),
            "time_ns": time,
            "share": time / total,
            "widths": odd,
            "rows": left.dims[0],
            "inner": left.dims[1],
            "columns": right.dims[1],
            "type": left.type,
        },
        intervals_ns=places(kernels_of(trace, group["op"].to_numpy(np.int64))),
    )


RULE = Rule(
    code="KRN001",
    name="misaligned-gemm",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS, Has.SHAPES),
    thresholds={
        "share": Threshold(0.02, "share of the GPU's work", "half of it won would be 1 %, the least that matters"),
        "rows": Threshold(16, "rows", "with fewer the time goes into reading the weights, whatever their width"),
    },
)
