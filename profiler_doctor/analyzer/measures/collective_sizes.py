"""How large a collective is and how many ranks take part, from whatever the trace says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.measures.links import launch_of
from profiler_doctor.analyzer.measures.operands import WIDTHS, tensors
from profiler_doctor.analyzer.measures.ops import enclosing_slice, parent_of
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

ELEMENT = {
    "double": 8, "long": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2, "byte": 1, "char": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "complexfloat": 8,
    "complexdouble": 16,
}  # fmt: skip
"""Bytes of one element by the name that record_param_comms gives the type (c10::ScalarType), in lower case."""
MARKS = re.compile(r"^(?:nccl|rccl|gloo|mpi|ucc):|^c10d::")
"""How torch marks the call of a backend; a kernel of its own may run under another name (SendRecv for all_to_all)."""
TELLS = re.compile(
    r"^(?:nccl|rccl|gloo|mpi|ucc):|^c10d::|record_param_comms|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
    r"|broadcast|(?:^|::)(?:send|recv)",
    re.IGNORECASE,
)
"""Slices around a launch whose tensors are the collective's own."""
ONE_BYTE = ("bool", "signed char", "unsigned char", "c10::Float8_e4m3fn", "c10::Float8_e5m2")
"""Types of tensors that WIDTHS leaves to its default; of any other type the size is not known."""
CLIMB = 8
"""Slices above a launch that are asked; what lies further out is not the collective's."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """One entry per collective: -1 unknown. `words` is what the program called it, "" unknown."""

    bytes: Ints
    ranks: Ints
    words: list[str]


def sizes(trace: Trace, rows: Ints, op_rows: Ints) -> Sizes:
    """The sizes of the collectives at event `rows`, launched from `op_rows` (the marks themselves on a CPU).

    Asked in this order: the kernel's own arguments, those of record_param_comms around its launch, the largest tensor
    that an op or mark of the collective around its launch was given.
    """
    around = _around_launch(trace, rows, op_rows)
    size, ranks, words = _told(trace, rows)
    shaped = np.full(len(rows), -1)
    for _ in range(CLIMB if len(rows) else 0):
        there = around >= 0
        asked = np.where(there, around, 0)
        more_size, more_ranks, told = _told(trace, asked)
        marks = _marked(trace, asked)
        known = np.where(there, _largest_tensor(trace, asked), -1)
        own = np.array([bool(mark) for mark in marks], np.bool_)
        shaped = np.where((shaped < 0) | own, np.maximum(shaped, known), shaped)
        size = np.where((size < 0) & there, more_size, size)
        ranks = np.where((ranks < 0) & there, more_ranks, ranks)
        named = [word or mark for word, mark in zip(told, marks, strict=True)]
        words = [mine or (more if here else "") for mine, more, here in zip(words, named, there, strict=True)]
        around = np.where(there, parent_of(trace, asked), -1)
    return Sizes(np.where(size >= 0, size, shaped), ranks, words)


def _around_launch(trace: Trace, rows: Ints, op_rows: Ints) -> Ints:
    """The innermost op or mark around each launch; the op where no slice is open on the launch's thread."""
    events = trace.events
    launch = launch_of(trace).at(rows, -1)
    at = np.maximum(launch, 0)
    around = enclosing_slice(trace, events.thread[at], events.start_ns[at]) if len(rows) else op_rows
    return np.where((launch >= 0) & (around >= 0), around, op_rows)


def _told(trace: Trace, rows: Ints) -> tuple[Ints, Ints, list[str]]:
    """Bytes, ranks and the collective's name by the arguments of record_param_comms at the rows."""
    text = trace.events.text
    kinds, named = text("dtype"), text("Collective name")
    width = np.array([ELEMENT.get(name.lower(), 0) for name in kinds.table or ()] + [0], np.int64)[kinds.at(rows, -1)]
    elements = np.maximum(numbers_at(trace, "In msg nelems", rows), numbers_at(trace, "Out msg nelems", rows))
    size = np.where((elements >= 0) & (width > 0), elements * width, -1)
    words = np.array([*(named.table or ()), ""], dtype=object)[named.at(rows, -1)]
    return size, numbers_at(trace, "Group size", rows), list(words)


def _marked(trace: Trace, rows: Ints) -> list[str]:
    """The name of each row that is a collective's op or mark, "" for others."""
    return [name if MARKS.search(name) else "" for name in trace.events.names_at(rows)]


def numbers_at(trace: Trace, argument: str, rows: Ints) -> Ints:
    """A whole-number argument at the rows, -1 where it is missing, too large for 64 bits or no whole number."""
    column = trace.events.column(argument)
    if column.table is None:
        whole = column.values.dtype.kind == "i" or bool(np.all(column.values == np.rint(column.values)))
        return column.at(rows, -1) if whole else np.full(len(rows), -1)
    values = [int(text) if text.isdecimal() and len(text) < 19 else -1 for text in column.table]
    return np.array([*values, -1], np.int64)[column.at(rows, -1)]


def _largest_tensor(trace: Trace, rows: Ints) -> Ints:
    """Bytes of the largest tensor of each row that is a collective's op or mark, -1 for none."""
    events = trace.events
    tells = _tells(trace)[events.name[rows]]
    keys = np.stack((events.text("Input Dims").at(rows, -1), events.text("Input type").at(rows, -1)))
    _, first, same = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    found = np.array([_bytes(trace, int(rows[place])) for place in first], np.int64)
    return np.where(tells, found[same.reshape(-1)], -1)


@measure
def _tells(trace: Trace) -> Bools:
    """For every name code whether TELLS is in it."""
    return trace.events.matching_names(TELLS.search)


def _bytes(trace: Trace, row: int) -> int:
    return max((one.bytes for one in tensors(trace, row) if one.type in (*WIDTHS, *ONE_BYTE)), default=-1)
