"""What the `args` of one category look like, learned from the file and decoded at msgspec's speed.

Nothing of it is written down beforehand: the first events of a category teach its argument names and the kinds of
their values, and a chunk that brings a new name or kind teaches that. So every argument becomes a column, whoever wrote
the file, and only what changes costs more than a typed decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntFlag
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from profiler_doctor.analyzer.formats._arguments import EXACT_IN_FLOAT, NO_TEXT, Argument, Array, Piece
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._times import ABSENT

MOST_ARGUMENTS = 1000
"""A category with more names than that has free-form keys; its events go the careful way instead."""


FIRST_LESSON = 64
"""Most categories show all they have in so many events."""


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


NO_ARGUMENTS = msgspec.defstruct("NoArguments", [], forbid_unknown_fields=True, gc=False)


class TooFree(Exception):
    """The category has more argument names than a typed decoder is good for, or one that it cannot have."""


class Shape:
    """The arguments of one category so far."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}
        self.struct: type[Any] = NO_ARGUMENTS
        self.decoder: msgspec.json.Decoder[list[Any]] | None = None
        self.fields: list[tuple[str, Kind, attrgetter[Any]]] = []

    def decode(self, arguments: Sequence[msgspec.Raw]) -> list[Any]:
        """The events' `args` as structs. Raises msgspec.DecodeError for no object, TooFree for free-form keys."""
        text = b"[" + b",".join(arguments) + b"]"
        if self.decoder is None:
            self._learn(b"[" + b",".join(arguments[:FIRST_LESSON]) + b"]")
        try:
            return self._decoded(text)
        except msgspec.ValidationError:  # a name or kind not seen before
            self._learn(text)
        return self._decoded(text)

    def _decoded(self, text: bytes) -> list[Any]:
        assert self.decoder is not None
        return self.decoder.decode(text)

    def _learn(self, text: bytes) -> None:
        seen: set[tuple[str, type[object]]] = set()
        for arguments in msgspec.json.decode(text, type=list[dict[str, Any]]):
            seen.update(zip(arguments, map(type, arguments.values()), strict=True))
        for name, kind in sorted(seen, key=lambda pair: (pair[0], pair[1].__name__)):
            self.kinds[name] = self.kinds.get(name, Kind(0)) | KINDS[kind]
        if len(self.kinds) > MOST_ARGUMENTS:
            raise TooFree
        self._rebuild()

    def _rebuild(self) -> None:
        fields, self.fields = [], []
        for place, (name, kind) in enumerate(self.kinds.items()):
            attribute = f"a{place}"
            fields.append((attribute, *_typed(kind, name)))
            self.fields.append((name, kind, attrgetter(attribute)))
        try:
            struct = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, gc=False)
        except ValueError as error:  # a name with a quote, a backslash or a control character
            raise TooFree from error
        self.struct = struct
        self.decoder = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]  # made above

    def add(self, columns: Columns, rows: Array, structs: Sequence[Any]) -> None:
        """Hand the decoded arguments of the events at `rows` to their columns."""
        for name, kind, get in self.fields:
            values = list(map(get, structs))
            argument = columns.argument(name)
            if kind == Kind.INT:
                add_whole(argument, rows, values)
            elif kind in (Kind.FLOAT, Kind.FLOAT | Kind.INT):
                _add_fractions(argument, rows, values)
            elif kind == Kind.TEXT:
                _add_texts(argument, rows, map(argument.texts.__getitem__, values))
            elif kind & Kind.NESTED:
                _add_texts(argument, rows, map(argument.json_texts.__getitem__, map(bytes, values)))
            else:
                argument.add_values(rows.tolist(), values)


def _typed(kind: Kind, name: str) -> tuple[Any, Any]:
    """The field's type, and its default under the argument's own name."""
    if kind & Kind.NESTED:
        return msgspec.Raw, msgspec.field(default=msgspec.Raw(), name=name)
    if kind == Kind.INT:
        return int, msgspec.field(default=ABSENT, name=name)
    if kind in (Kind.FLOAT, Kind.FLOAT | Kind.INT):
        return int | float, msgspec.field(default=float("nan"), name=name)
    if kind == Kind.TEXT:
        return str, msgspec.field(default=NO_TEXT, name=name)
    return ANY_SINGLE, msgspec.field(default=None, name=name)


def add_whole(argument: Argument, rows: Array, values: Sequence[int]) -> None:
    """Append whole numbers to an argument, ABSENT ones left out."""
    try:
        numbers = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        argument.add_values(rows.tolist(), [None if value == ABSENT else value for value in values])
        return
    _add_piece(argument, rows, numbers, numbers != ABSENT)


def _add_fractions(argument: Argument, rows: Array, values: Sequence[int | float]) -> None:
    numbers = np.array(values, np.float64)
    there = ~np.isnan(numbers)
    if np.any(np.abs(numbers[there]) >= EXACT_IN_FLOAT):
        places = np.flatnonzero(there).tolist()
        argument.add_values(rows[there].tolist(), [values[place] for place in places])
    else:
        _add_piece(argument, rows, numbers, there)


def _add_texts(argument: Argument, rows: Array, codes: Iterable[int]) -> None:
    numbers = np.fromiter(codes, np.int32, len(rows))
    _add_piece(argument, rows, numbers, numbers >= 0, texts=True)


def _add_piece(argument: Argument, rows: Array, values: Array, there: Array, *, texts: bool = False) -> None:
    if there.all():
        argument.pieces.append(Piece(rows, values, texts))
    elif there.any():
        argument.pieces.append(Piece(rows[there], values[there], texts))
