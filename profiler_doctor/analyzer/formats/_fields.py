"""One argument of a category's events: how it is decoded, read out of the decoded structs, and put into its column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from typing import Any

import msgspec
import numpy as np

from profiler_doctor.analyzer.formats._arguments import EXACT_IN_FLOAT, NO_TEXT, Argument, Array, Piece
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._times import ABSENT

NOT_A_NUMBER = float("nan")
NO_JSON = msgspec.Raw()
"""Defaults are told by identity where a whole run of events is looked through for the few that have an argument."""


class Kind(IntFlag):
    """The kinds of JSON value that an argument was seen with."""

    INT = 1
    FLOAT = 2
    TEXT = 4
    BOOL = 8
    NULL = 16
    NESTED = 32


KINDS = {
    int: Kind.INT,
    float: Kind.FLOAT,
    str: Kind.TEXT,
    bool: Kind.BOOL,
    type(None): Kind.NULL,
    list: Kind.NESTED,
    dict: Kind.NESTED,
}
ANY_SINGLE = int | float | str | bool | None


@dataclass(frozen=True)
class Field:
    """An argument, its kinds so far, and its place in the struct. `always`: every event so far had it."""

    name: str
    kind: Kind
    place: int
    always: bool

    @property
    def default(self) -> Any:
        """What stands for an absent value."""
        return self._type_and_default[1]

    @property
    def _type_and_default(self) -> tuple[Any, Any]:
        if self.kind & Kind.NESTED:
            return msgspec.Raw, NO_JSON
        if self.kind == Kind.INT:
            return int, ABSENT
        if self.kind in (Kind.FLOAT, Kind.FLOAT | Kind.INT):
            return int | float, NOT_A_NUMBER
        if self.kind == Kind.TEXT:
            return str, NO_TEXT
        return ANY_SINGLE, None

    @property
    def definition(self) -> tuple[str, Any, Any]:
        """As msgspec.defstruct takes it, for keyword-only fields."""
        kind, default = self._type_and_default
        options = {} if self.always else {"default": default}
        return f"a{self.place}", kind, msgspec.field(name=self.name, **options)

    def add(self, columns: Columns, rows: Array, structs: Sequence[Any]) -> None:
        """Hand the values of the structs to the argument's column; `rows` are those of the events."""
        values = _getter(self.place)(structs)
        argument = columns.argument(self.name)
        if self.kind == Kind.INT:
            add_whole(argument, rows, values, all_there=self.always)
        elif self.kind in (Kind.FLOAT, Kind.FLOAT | Kind.INT):
            _add_fractions(argument, rows, values)
        elif self.kind == Kind.TEXT:
            _add_texts(argument, rows, map(argument.texts.__getitem__, values))
        elif self.kind & Kind.NESTED:
            _add_texts(argument, rows, map(argument.json_texts.__getitem__, map(bytes, values)))
        else:
            argument.add_values(rows.tolist(), values)


@cache
def _getter(place: int) -> Callable[[Sequence[Any]], list[Any]]:
    """Reads one slot of every struct: spelled out it takes half the time of attrgetter, and that is most of it all."""
    return eval(f"lambda structs: [struct.a{place} for struct in structs]")  # type: ignore[no-any-return]  # noqa: S307


def finder(fields: Sequence[Field]) -> Callable[[Sequence[Any]], list[int]]:
    """Gives the places of the structs that have any of the fields."""
    test = " or ".join(f"struct.a{field.place} is not default{field.place}" for field in fields) or "False"
    defaults = {f"default{field.place}": field.default for field in fields}
    source = f"lambda structs: [place for place, struct in enumerate(structs) if {test}]"
    return eval(source, defaults)  # type: ignore[no-any-return]  # noqa: S307  # names are numbered, not the file's


def add_whole(argument: Argument, rows: Array, values: Sequence[int], *, all_there: bool = False) -> None:
    """Append whole numbers to an argument, ABSENT ones left out."""
    try:
        numbers = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        argument.add_values(rows.tolist(), [None if value == ABSENT else value for value in values])
        return
    if all_there:
        argument.pieces.append(Piece(rows, numbers))
    else:
        _add_piece(argument, rows, numbers, numbers != ABSENT)


def _add_fractions(argument: Argument, rows: Array, values: Sequence[int | float]) -> None:
    try:
        numbers = np.fromiter(values, np.float64, len(values))
        there = ~np.isnan(numbers)
        exact = bool(np.all(np.abs(numbers[there]) < EXACT_IN_FLOAT))
    except OverflowError:  # a whole number beyond every double
        there, exact = np.array([value == value for value in values], np.bool_), False  # noqa: PLR0124  # not nan
    if exact:
        _add_piece(argument, rows, numbers, there)
    else:
        places = np.flatnonzero(there).tolist()
        argument.add_values(rows[there].tolist(), [values[place] for place in places])


def _add_texts(argument: Argument, rows: Array, codes: Iterable[int]) -> None:
    numbers = np.fromiter(codes, np.int32, len(rows))
    _add_piece(argument, rows, numbers, numbers >= 0, texts=True)


def _add_piece(argument: Argument, rows: Array, values: Array, there: Array, *, texts: bool = False) -> None:
    if there.all():
        argument.pieces.append(Piece(rows, values, texts))
    elif there.any():
        argument.pieces.append(Piece(rows[there], values[there], texts))
