"""A run of complete events into columns, at msgspec's speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from profiler_doctor.analyzer.formats._arguments import Piece
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._forms import Forms
from profiler_doctor.analyzer.formats._known import add_known
from profiler_doctor.analyzer.formats._shapes import Shape, TooFree
from profiler_doctor.analyzer.formats._times import ABSENT, NeedsDecimals
from profiler_doctor.analyzer.trace import Ints

NOT_FOR_US = (msgspec.ValidationError, NeedsDecimals, TooFree)
"""The events are JSON, but hold something that only the careful way reads."""


class Event(msgspec.Struct, gc=False):
    """One event of a chrome trace; its other keys are not read, and ABSENT stands for a missing number.

    `args` stays as written until the category is known.
    """

    ph: str | None = None
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = ABSENT
    dur: int | float = ABSENT
    id: int | str = ABSENT
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
    id: int | str = ABSENT
    args: msgspec.Raw = msgspec.Raw()


class TypedReader:
    """Decodes events and their arguments; knows the categories met so far, and the shapes of their arguments."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.shapes: dict[int, Shape] = defaultdict(Shape)
        self.forms = Forms()
        self.decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[Event])

    def add(self, text: memoryview) -> None:
        """Add all events of a JSON list.

        Raises msgspec.DecodeError where the text is not JSON, and one of NOT_FOR_US where it is but the events are not
        of the usual form; nothing has been added then.
        """
        try:
            known = self.forms.decode(text)
            if known is not None:
                add_known(self.columns, self.forms, known)
            else:
                self._add(self.decoder.decode(text))
        except NeedsDecimals:
            self.forms.give_up()
            self.decoder = msgspec.json.Decoder(list[ExactEvent])
            self._add(self.decoder.decode(text))

    def _add(self, events: Sequence[Any]) -> None:
        core = {
            "ph": [event.ph for event in events],
            "cat": [event.cat for event in events],
            "name": [event.name for event in events],
            "pid": [event.pid for event in events],
            "tid": [event.tid for event in events],
            "ts": [event.ts for event in events],
            "dur": [event.dur for event in events],
        }
        groups = self._groups(core["cat"], [event.args for event in events])
        structs = [(shape, rows, shape.decode(arguments)) for shape, rows, arguments in groups]
        first = self.columns.length
        self.columns.add_core(core)
        for shape, rows, found in structs:
            shape.add(self.columns, (rows + first).astype(np.int32), found)
        self._add_ids(first, [event.id for event in events])
        written = {category for category in core["cat"] if category is not None}
        self.forms.learn(events, {category: self.shapes[self.columns.categories[category]] for category in written})

    def _groups(self, written: Sequence[str | None], arguments: Sequence[msgspec.Raw]) -> list[tuple[Shape, Ints, Any]]:
        """The events that have arguments, by category: its shape, their places, their arguments."""
        codes = np.fromiter(map(self.columns.categories.__getitem__, written), np.int16, len(written))
        codes[~np.fromiter(map(bool, arguments), np.bool_, len(arguments))] = -1
        order = np.argsort(codes, kind="stable")
        found = []
        for code in np.unique(codes).tolist():
            if code >= 0:
                first, after = np.searchsorted(codes, (code, code + 1), sorter=order)
                rows = order[first:after]
                found.append((self.shapes[code], rows, list(map(arguments.__getitem__, rows.tolist()))))
        return found

    def _add_ids(self, first: int, ids: Sequence[int | str]) -> None:
        numbers = np.array(ids)
        if numbers.dtype.kind != "i":
            there = [place for place, value in enumerate(ids) if value != ABSENT]
            self.columns.argument("id").add_values([first + place for place in there], [ids[place] for place in there])
        elif np.any(numbers != ABSENT):
            rows = np.flatnonzero(numbers != ABSENT)
            self.columns.argument("id").pieces.append(Piece((rows + first).astype(np.int32), numbers[rows]))
