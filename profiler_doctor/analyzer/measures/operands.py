"""What an op was called with: the shape, type and strides of each argument, as the profiler wrote them down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod

import numpy as np

from profiler_doctor.analyzer.trace import Column, Trace, measure

ARGUMENTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
WIDTHS = {"double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::Half": 2, "c10::BFloat16": 2, "half": 2}
"""Bytes of one element by the profiler's type name; what is not here counts one byte."""

MOST_ELEMENTS = 1 << 48
"""From here on a shape is damage."""


@dataclass(frozen=True)
class Operand:
    """One argument of an op. `dims` is () for numbers, lists and 0-dimensional tensors; None of it is guessed."""

    dims: tuple[int, ...]
    type: str
    """`float`, `double`, `c10::Half`, …; `Scalar`, `ScalarList`, `TensorList`; "" unknown."""
    strides: tuple[int, ...] | None
    """Of a tensor with dimensions; None where the trace does not say."""
    value: str
    """The number, flag or list as text where it is no tensor, else ""."""

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.size * WIDTHS.get(self.type, 1)


def operands(trace: Trace, row: int) -> tuple[Operand, ...]:
    """The arguments of one op in order; empty where the trace has no shapes for it."""
    return _calls(trace).operands(row)


def tensors(trace: Trace, row: int) -> tuple[Operand, ...]:
    """The arguments of one op that are tensors of at least one dimension."""
    return _calls(trace).tensors(row)


def list_dims(trace: Trace, row: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of the tensors in an op's first argument where that is a list of them; empty where not known."""
    dims = _list(trace, ARGUMENTS[0], row)
    first = dims[0] if dims else None
    if not isinstance(first, list) or not all(isinstance(shape, list) for shape in first):
        return ()
    return tuple(_shape(shape) for shape in first)


class _Calls:
    """The ways in which ops were called, of which a trace has few: each is put together once, when it is asked for."""

    def __init__(self, trace: Trace) -> None:
        self._tables = [_parsed(trace, argument) for argument in ARGUMENTS]
        every = np.arange(len(trace.events) if len(trace.events.text(ARGUMENTS[0]).rows) else 0)
        codes = [trace.events.text(argument).at(every, -1).astype(np.int32) for argument in ARGUMENTS]
        self._codes = np.stack(codes, axis=1)
        self._known: dict[tuple[int, ...], tuple[Operand, ...]] = {}
        self._tensors: dict[tuple[int, ...], tuple[Operand, ...]] = {}

    def operands(self, row: int) -> tuple[Operand, ...]:
        """Of the op at an event row."""
        way = self._way(row)
        if way not in self._known:
            lists = (table[code] if code >= 0 else [] for table, code in zip(self._tables, way, strict=True))
            self._known[way] = _operands(*lists)
        return self._known[way]

    def tensors(self, row: int) -> tuple[Operand, ...]:
        """Those of them that have dimensions."""
        way = self._way(row)
        if way not in self._tensors:
            self._tensors[way] = tuple(operand for operand in self.operands(row) if operand.dims)
        return self._tensors[way]

    def _way(self, row: int) -> tuple[int, ...]:
        return tuple(self._codes[row].tolist()) if len(self._codes) else (-1,) * len(ARGUMENTS)


@measure
def _calls(trace: Trace) -> _Calls:
    return _Calls(trace)


def _operands(
    dims: list[object], types: list[object], strides: list[object], values: list[object]
) -> tuple[Operand, ...]:
    found = []
    for place, shape in enumerate(dims):
        layout = _numbers(strides[place]) if place < len(strides) else ()
        found.append(
            Operand(
                dims=_shape(shape),
                type=str(types[place]) if place < len(types) else "",
                strides=layout if layout and len(layout) == len(_numbers(shape)) else None,
                value=str(values[place]) if place < len(values) else "",
            )
        )
    return tuple(found)


def _list(trace: Trace, argument: str, row: int) -> list[object]:
    code = _code(trace.events.text(argument), row)
    return _parsed(trace, argument)[code] if code >= 0 else []


def _code(column: Column, row: int) -> int:
    """As `Column.at`, for a single row: rules ask for thousands of them."""
    place = int(column.rows.searchsorted(column.rows.dtype.type(row)))
    return int(column.values[place]) if place < len(column.rows) and column.rows[place] == row else -1


@measure
def _parsed(trace: Trace, argument: str) -> list[list[object]]:
    """Every distinct text of an argument as a list; an unreadable one is empty."""
    return [_from_json(text) for text in trace.events.text(argument).table or ()]


def _from_json(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def _shape(value: object) -> tuple[int, ...]:
    """The dimensions of a tensor, () for anything else and where no machine could hold such a tensor."""
    dims = _numbers(value)
    return dims if prod(dims) < MOST_ELEMENTS else ()


def _numbers(value: object) -> tuple[int, ...]:
    """A list of whole numbers; () for a list of lists (of tensors) and for anything else."""
    if isinstance(value, list) and all(isinstance(number, int) for number in value):
        return tuple(value)
    return ()
