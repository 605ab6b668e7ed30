"""The ops that a program called one after the other, with a letter each, so that patterns of them can be looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures import pointwise_costs
from profiler_doctor.analyzer.measures.families import family_of
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure

LETTERS = {
    "pow": "p", "square": "p", "mean": "m", "sum": "M", "add": "a", "rsqrt": "r", "sqrt": "s", "mul": "x", "sub": "u",
    "div": "d", "var": "v", "std": "v", "var_mean": "V", "std_mean": "V", "neg": "n", "cat": "C", "stack": "C",
    "silu": "i", "gelu": "i", "sigmoid": "g", "tanh": "h", "erf": "e", "softplus": "o", "linear": "L", "mm": "L",
    "matmul": "L", "addmm": "L", "bmm": "L", "to": "c", "_to_copy": "c", "type_as": "c", "float": "c", "half": "c",
    "bfloat16": "c", "contiguous": "k", "clone": "k", "reshape": "k", "flatten": "k", "copy_": "k",
}  # fmt: skip
"""Op (without aten:: and, save for copy_, the underscore of an op in place) → its letter."""
POINTWISE, OTHER = "w", "-"
"""Other ops that work element by element; everything else."""
ATEN = re.compile(r"^aten::")
CLOSED = re.compile(
    r"^autograd::engine|Backward\d*$|^Optimizer\.|^(?:Torch-Compiled|CompiledF|## Call Compiled|torch::jit|TorchDynamo)"
)
"""What runs inside is not written by the user op by op: gradients, optimizers, compiled code."""
DOES_WORK = re.compile(r"^aten::(?:copy_|native_dropout|bernoulli_|_fused_dropout)$")
"""What an op that may do nothing at all (`to`, `contiguous`, `reshape`, `dropout`) holds where it does something."""
IDLE_FAMILIES = ("views", "creation", "copies and layout")
IDLE_OPS = ("aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::result_type", "aten::can_cast")
MOVES_ANYWAY = ("aten::cat", "aten::stack", "aten::concat", "aten::hstack", "aten::vstack", "aten::repeat")


@dataclass(frozen=True, eq=False)
class Sequence:
    """`rows`: the ops called and not inside another ATen op, thread by thread in time order; those that only look at a
    tensor or make an empty one are left out. `letters` has one letter for each; `owner` gives, for every event row, the
    place in `rows` of the op around a cpu_op, or -1."""

    rows: Ints
    letters: str
    owner: Codes

    def matches(self, pattern: str) -> Iterator[tuple[int, int]]:
        """First place and place after the last, wherever the ops follow each other as the expression of letters says.

        Whether they belong together only their shapes tell; two threads' ends may meet in a match.
        """
        for found in re.finditer(pattern, self.letters):
            yield found.span()


@measure
def sequence(trace: Trace) -> Sequence:
    """Every thread's ops; see Sequence."""
    table = ops(trace)
    row, thread = table["row"].to_numpy(), table["thread"].to_numpy()
    codes = trace.events.name[row]
    aten, closed = (trace.events.matching_names(test.search)[codes] for test in (ATEN, CLOSED))
    covers = closed | (aten & table["is_op"].to_numpy())
    last = _last_cover(table["start_ns"].to_numpy(), table["end_ns"].to_numpy(), thread, covers)
    places = np.arange(len(row))
    seen = (table["is_op"].to_numpy() | closed) & ((last == places) | (last < 0))
    works = np.zeros(len(row), np.bool_)
    works[last[(last >= 0) & trace.events.matching_names(DOES_WORK.search)[codes]]] = True
    kept = np.flatnonzero(seen & (works | ~trace.events.matching_names(_may_be_idle)[codes]))
    place_of = np.full(len(row) + 1, -1, np.int32)
    place_of[kept] = np.arange(len(kept))
    owner = np.full(len(trace.events), -1, np.int32)
    owner[row] = place_of[last]
    return Sequence(row[kept].astype(np.int64), _letters(trace, codes[kept]), owner)


def _last_cover(start: Ints, end: Ints, thread: Ints, covers: Bools) -> Ints:
    """For each slice the outermost covering one around it or itself, -1 for none; slices by thread, start, longest."""
    found = np.full(len(start), -1)
    edges = np.flatnonzero(np.diff(thread)) + 1
    for part in np.split(np.arange(len(start)), edges):
        ends = np.where(covers[part], end[part], -1)
        before = np.concatenate(([-1], np.maximum.accumulate(ends)[:-1])) if len(part) else ends
        outer = covers[part] & (start[part] >= before)
        latest = np.maximum.accumulate(np.where(outer, np.arange(len(part)), -1))
        inside = (latest >= 0) & (start[part] < np.maximum(end[part][latest], start[part][latest] + 1))
        found[part] = np.where(inside, part[latest], -1)
    return found


def _may_be_idle(name: str) -> bool:
    return name in IDLE_OPS or (name not in MOVES_ANYWAY and family_of(name) in IDLE_FAMILIES)


def _letters(trace: Trace, codes: Codes) -> str:
    by_name = np.array([ord(_letter(name)) for name in trace.events.names] or [0], np.uint32)
    letters = by_name[codes]
    return letters.astype("<u4").tobytes().decode("utf-32-le") if len(letters) else ""


def _letter(name: str) -> str:
    own = name.removeprefix("aten::")
    if own == name:
        return OTHER
    plain = own if own == "copy_" else own.removesuffix("_")
    known = plain in pointwise_costs.NAMES or plain in pointwise_costs.COMPARISONS
    return LETTERS.get(plain) or (POINTWISE if known else OTHER)
