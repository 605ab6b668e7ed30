"""A run of complete events into columns, at msgspec's speed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from profiler_doctor.analyzer.formats._arguments import Piece
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._shapes import Shape, TooFree
from profiler_doctor.analyzer.formats._times import ABSENT, NeedsDecimals
from profiler_doctor.analyzer.trace import Ints

NOT_FOR_US = (msgspec.ValidationError, NeedsDecimals, TooFree)
"""The events are JSON, but hold something that only the careful way reads."""


class Event(msgspec.Struct, gc=False):
    """One event of a chrome trace; other keys are not read. `args` stays as written until its category is known."""

    ph: str | None = None
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = ABSENT
    dur: int | float = ABSENT
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw()


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times as decimals, for absolute times in fractions of a microsecond (see `_times`)."""

    ph: str | None = None
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Decimal | None = None
    dur: Decimal | None = None
    id: int | str | None = None
    args: msgspec.Raw = msgspec.Raw()


CORE = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


class TypedReader:
    """Decodes events and their arguments; knows the shapes of the arguments met so far, by category."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.shapes: dict[int, Shape] = {}
        self.decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[Event])

    def add(self, text: bytes | bytearray) -> None:
        """Add all events of a JSON list.

        Raises msgspec.DecodeError where the text is not JSON, and one of NOT_FOR_US where it is but the events are not
        of the usual form; nothing has been added then.
        """
        try:
            self._add(self.decoder.decode(text))
        except NeedsDecimals:
            self.decoder = msgspec.json.Decoder(list[ExactEvent])
            self._add(self.decoder.decode(text))

    def _add(self, events: Sequence[Any]) -> None:
        core = {key: list(map(attrgetter(key), events)) for key in CORE}
        groups = self._groups(core["cat"], [event.args for event in events])
        structs = [(shape, rows, shape.decode(arguments)) for shape, rows, arguments in groups]
        first = self.columns.length
        self.columns.add_core(core)
        for shape, rows, found in structs:
            shape.add(self.columns, (rows + first).astype(np.int32), found)
        self._add_ids(first, [event.id for event in events])

    def _groups(self, written: Sequence[str | None], arguments: Sequence[msgspec.Raw]) -> list[tuple[Shape, Ints, Any]]:
        """The events that have arguments, by category: its shape, their places, their arguments."""
        codes = np.array(list(map(self.columns.categories.__getitem__, written)), np.int64)
        there = np.fromiter(map(bool, arguments), np.bool_, len(arguments))
        found = []
        for code in np.unique(codes[there]).tolist():
            rows = np.flatnonzero(there & (codes == code))
            shape = self.shapes.setdefault(code, Shape())
            found.append((shape, rows, [arguments[row] for row in rows.tolist()]))
        return found

    def _add_ids(self, first: int, ids: Sequence[int | str | None]) -> None:
        there = np.fromiter((value is not None for value in ids), np.bool_, len(ids))
        rows = (np.flatnonzero(there) + first).astype(np.int32)
        values = [value for value in ids if value is not None]
        numbers = np.array(values) if values else np.empty(0)
        if numbers.dtype.kind == "i":
            self.columns.argument("id").pieces.append(Piece(rows, numbers))
        elif values:
            self.columns.argument("id").add_values(rows.tolist(), values)
