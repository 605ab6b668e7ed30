"""The casts between floating-point types that the program asked for, or that autocast made for it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.element_types import FLOATING
from profiler_doctor.analyzer.measures.operands import ARGUMENTS, tensors
from profiler_doctor.analyzer.measures.ops import inside_named, named, nearest_above
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.trace import Ints, Trace, measure

NOT_THE_FORWARD_PASS = named(r"^autograd::engine|Backward\d*$", r"^Optimizer\.")
PRODUCT = named(r"^aten::(?:linear|matmul|mm|addmm|bmm|baddbmm|einsum|\w*conv\w*|scaled_dot_product_attention)$")
"""Autocast casts inside the op that it casts for."""
CAST = "aten::_to_copy"
WIDE = {"fp64"}
"""Another illness: see PRC004."""


@measure
def casts(trace: Trace) -> pd.DataFrame:
    """One row per cast between floating types (float64 left out) in the window's forward pass, in file order.

    Columns: row (of aten::_to_copy), source and target (types as the profiler names them), size (elements), by_autocast
    (whether it was made inside a product or convolution, which is where autocast makes them).
    """
    copies = trace.rows_named("aten::copy_".__eq__, ("cpu_op",))
    mask = np.zeros(len(trace.events), np.bool_)
    mask[trace.rows_named(CAST.__eq__, ("cpu_op",))] = True
    cast = nearest_above(trace, copies, mask)
    copies, cast = copies[cast >= 0], cast[cast >= 0]
    inside = np.isin(cast, rows_in_window(trace, cast)) & ~inside_named(trace, cast, NOT_THE_FORWARD_PASS)
    copies, cast = copies[inside], cast[inside]
    found = [_types(trace, row) for row in _alike(trace, copies)]
    table = pd.DataFrame(found, columns=["source", "target", "size"])
    table.insert(0, "row", cast)
    table["by_autocast"] = inside_named(trace, cast, PRODUCT)
    floats = table["source"].map(_kind).ne("") & table["target"].map(_kind).ne("")
    return table[floats & (table["source"] != table["target"])].reset_index(drop=True)


def _alike(trace: Trace, rows: Ints) -> list[int]:
    """For each row the first one that was called like it: operands are parsed once."""
    if not len(rows):
        return []
    codes = np.stack([trace.events.text(argument).at(rows, -1) for argument in ARGUMENTS])
    _, first, same = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    alike: list[int] = rows[first][same.reshape(-1)].tolist()
    return alike


def _types(trace: Trace, copy: int) -> tuple[str, str, int]:
    given = tensors(trace, copy)
    return (given[1].type, given[0].type, given[1].size) if len(given) > 1 else ("", "", 0)


def _kind(name: object) -> str:
    kind = FLOATING.get(str(name), "")
    return "" if kind in WIDE else kind
