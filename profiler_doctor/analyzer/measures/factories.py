"""The op that made, on the CPU, what a copy then takes to a device: told by neighbourhood, where no trace tells."""

from __future__ import annotations

import json
from math import prod

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.ops import named, ops, outermost_named
from profiler_doctor.analyzer.measures.siblings import before_it
from profiler_doctor.analyzer.measures.wait_causes import COPY
from profiler_doctor.analyzer.trace import Ints, Trace

FACTORY = named(
    r"^aten::(zeros|ones|full|arange|linspace|logspace|eye|rand|randn|randint|normal|tril|triu|zeros_like|ones_like"
    r"|full_like|rand_like|randn_like|scalar_tensor|tril_indices|triu_indices|hann_window|hamming_window)$"
)
VIEW = named(r"^aten::(unsqueeze|squeeze|view|expand|t|transpose|permute|slice|select|lift_fresh|detach_?|alias)$")
FILLS = named(r"^aten::(zero_|fill_|normal_|uniform_|random_)$")
VIEWS = 4
"""So many views between the factory and the copy are looked through."""


def factory_before(trace: Trace, copy_ops: npt.ArrayLike) -> Ints:
    """For each copying op's row the factory op right before the outermost copying op around it, -1 for none.

    Views between the two are looked through. Where the shapes are known, the numbers of elements must agree.
    """
    copying = np.asarray(copy_ops, dtype=np.int64)
    names = trace.events.name
    factory, view = (trace.events.matching_names(test)[names] for test in (FACTORY, VIEW))
    found = before_it(trace, outermost_named(trace, copying, COPY))
    for _ in range(VIEWS):
        found = np.where((found >= 0) & view[found], before_it(trace, found), found)
    found = np.where((found >= 0) & factory[found], found, -1)
    sizes = _sizes(trace, found[found >= 0])
    agree = [_agrees(trace, op, sizes.get(made)) for op, made in zip(copying.tolist(), found.tolist(), strict=True)]
    return np.where(np.array(agree, np.bool_), found, -1)


def _agrees(trace: Trace, copy_op: int, size: int | None) -> bool:
    told = operands(trace, copy_op)
    return size is None or not told or not told[0].dims or told[0].size == size


def _sizes(trace: Trace, factories: Ints) -> dict[int, int]:
    """Factory row → elements of what it made: those its filling op was given, else those it was asked for."""
    table = ops(trace)
    fills = table[table["parent"].isin(factories) & table["name"].map(FILLS).notna().to_numpy()]
    sizes = {int(made): _asked(trace, int(made)) for made in np.unique(factories)}
    for row, parent in zip(fills["row"].tolist(), fills["parent"].tolist(), strict=True):
        told = operands(trace, row)
        sizes[parent] = told[0].size if told and told[0].dims else sizes[parent]
    return {made: size for made, size in sizes.items() if size is not None}


def _asked(trace: Trace, factory: int) -> int | None:
    """The elements of the size that is the op's first argument, where it is a list of numbers."""
    told = operands(trace, factory)
    try:
        size = json.loads(told[0].value) if told and told[0].value else None
    except ValueError:
        return None
    return prod(size) if isinstance(size, list) and all(isinstance(number, int) for number in size) else None
