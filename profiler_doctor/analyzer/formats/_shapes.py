"""What the `args` of one category look like, learned from the file and decoded at msgspec's speed.

Nothing of it is written down beforehand: the first events of a category teach its argument names and the kinds of
their values, and a chunk that brings a new name or kind teaches that. So every argument becomes a column, whoever wrote
the file, and only what changes costs more than a typed decode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from profiler_doctor.analyzer.formats._arguments import Array
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._fields import KINDS, Field, Kind, finder

MOST_ARGUMENTS = 1000
"""A category with more names than that has free-form keys; its events go the careful way instead."""
FIRST_LESSON = 64
"""Most categories show all they have in so many events."""
SELDOM = 16
"""An argument of fewer than one event in so many is looked for, and not read out of every event."""
NO_ARGUMENTS = msgspec.defstruct("NoArguments", [], forbid_unknown_fields=True, gc=False)


class TooFree(Exception):
    """The category has more argument names than a typed decoder is good for, or one that it cannot have."""


class Shape:
    """The arguments of one category so far."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}
        self.counts: Counter[str] = Counter()
        self.lessons = 0
        """Events that it was learned from; `counts` of them had each argument."""
        self.struct: type[Any] = NO_ARGUMENTS
        self.decoder: msgspec.json.Decoder[list[Any]] | None = None
        self.often: list[Field] = []
        self.seldom: list[Field] = []
        self.find: Callable[[Sequence[Any]], list[int]] = finder(())

    def decode(self, arguments: Sequence[msgspec.Raw]) -> list[Any]:
        """The events' `args` as structs. Raises msgspec.DecodeError for no object, TooFree for free-form keys."""
        text = b"[" + b",".join(arguments) + b"]"
        if self.decoder is None:
            self._learn(b"[" + b",".join(arguments[:FIRST_LESSON]) + b"]")
        try:
            return self._decoded(text)
        except msgspec.ValidationError:  # a name or kind not seen before, or one that was always there and is not here
            self._learn(text)
        return self._decoded(text)

    def _decoded(self, text: bytes) -> list[Any]:
        assert self.decoder is not None
        return self.decoder.decode(text)

    def _learn(self, text: bytes) -> None:
        seen: set[tuple[str, type[object]]] = set()
        events = msgspec.json.decode(text, type=list[dict[str, Any]])
        for arguments in events:
            seen.update(zip(arguments, map(type, arguments.values()), strict=True))
            self.counts.update(arguments.keys())
        self.lessons += len(events)
        for name, kind in sorted(seen, key=lambda pair: (pair[0], pair[1].__name__)):
            self.kinds[name] = self.kinds.get(name, Kind(0)) | KINDS[kind]
        if len(self.kinds) > MOST_ARGUMENTS:
            raise TooFree
        self._rebuild()

    def _rebuild(self) -> None:
        fields = [
            Field(name, kind, place, always=self.counts[name] == self.lessons)
            for place, (name, kind) in enumerate(self.kinds.items())
        ]
        definitions = [field.definition for field in fields]
        try:
            struct = msgspec.defstruct("Arguments", definitions, forbid_unknown_fields=True, gc=False, kw_only=True)
        except ValueError as error:  # a name with a quote, a backslash or a control character
            raise TooFree from error
        self.struct = struct
        self.decoder = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]  # made above
        self.seldom = [field for field in fields if self.counts[field.name] * SELDOM < self.lessons]
        self.often = [field for field in fields if field not in self.seldom]
        self.find = finder(self.seldom)

    def add(self, columns: Columns, rows: Array, structs: Sequence[Any]) -> None:
        """Hand the decoded arguments of the events at `rows` to their columns."""
        for field in self.often:
            field.add(columns, rows, structs)
        few = self.find(structs) if self.seldom else []
        if few:
            those = [structs[place] for place in few]
            for field in self.seldom:
                field.add(columns, rows[few], those)
