"""What all events of one category look like, learned from those read so far, so that the next ones decode in one go.

A category's arguments are its `Shape`; the rest is here: what never changed (its phase, often its process and thread)
and what it never had (a duration, an id) is not looked at again, because the decoder refuses whatever differs. Then the
slower way reads the run, and teaches the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal

import msgspec

from profiler_doctor.analyzer.formats._arguments import is_number
from profiler_doctor.analyzer.formats._shapes import Shape
from profiler_doctor.analyzer.formats._times import ABSENT

MOST_FORMS = 64
"""A file with more categories than that makes them up; one decoder for all of them would not pay."""
MOST_FAILURES = 12
"""So many more runs of events that differed than runs that were as learned: the file does not settle."""
FIXED = ("ph", "pid", "tid")
"""What a category may have the same in all its events."""
NONE: set[object] = {None}


class Form:
    """The events of one category, as written in the file, so far: the values or kinds that each key was seen with."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.seen: dict[str, set[object]] = {key: set() for key in (*FIXED, "dur", "id", "args")}

    def learn(self, events: Sequence[Any]) -> None:
        """Look at events of this category that were decoded the slower way."""
        for key in FIXED:
            if len(self.seen[key]) <= 1:
                self.seen[key].update({getattr(event, key) for event in events})
        self.seen["dur"].update({None if event.dur in (None, ABSENT) else float for event in events})
        self.seen["id"].update({None if event.id == ABSENT else type(event.id) for event in events})
        self.seen["args"].update({dict if event.args else None for event in events})

    def fixed(self, key: str) -> Any:
        """The one value that ph, pid or tid has, None where there are several."""
        value = next(iter(self.seen[key])) if len(self.seen[key]) == 1 else None
        return value if isinstance(value, str) or is_number(value) else None

    def has(self, key: str) -> bool:
        """Whether any event had a dur, an id or args."""
        return self.seen[key] != NONE

    def key(self) -> tuple[object, ...]:
        """Equal as long as nothing new was learned."""
        return (*(frozenset(values) for values in self.seen.values()), self.shape.struct)

    def struct(self, written: str, place: int) -> type[Any]:
        """The type that takes such events and no others."""
        open_kinds = {"ph": str | None, "pid": int | str | None, "tid": int | str | None}
        fields: list[Any] = [("name", str, ""), ("ts", int | float, ABSENT)]
        for key, kind in open_kinds.items():
            fields.append((key, kind, None) if self.fixed(key) is None else (key, Literal[self.fixed(key)]))
        fields.append(("dur", int | float, ABSENT) if self.has("dur") else ("dur", None, None))
        id_kind = int | str if str in self.seen["id"] else int
        fields.append(("id", id_kind, ABSENT) if self.has("id") else ("id", None, None))
        fields.append(("args", self.shape.struct) if None not in self.seen["args"] else self._args_or_none())
        return msgspec.defstruct(f"Event{place}", fields, tag_field="cat", tag=written, kw_only=True, gc=False)

    def _args_or_none(self) -> Any:
        return ("args", self.shape.struct | None if self.has("args") else None, None)


class Forms:
    """The categories met so far, and the decoder of a list of their events while it is worth having."""

    def __init__(self) -> None:
        self.known: dict[str, Form] = {}
        self.by_type: dict[type[Any], int] = {}
        """Type of a decoded event → place of its category in `known`."""
        self.decoder: msgspec.json.Decoder[list[Any]] | None = None
        self._made_for: tuple[object, ...] = ()
        """What was known when the decoder was made."""
        self.failures = 0

    @property
    def hopeless(self) -> bool:
        """Whether learning more of this file would not pay."""
        return self.failures > MOST_FAILURES or len(self.known) > MOST_FORMS

    def decode(self, text: memoryview) -> list[Any] | None:
        """The events of a JSON list, each of its category's type; None where any is not as learned.

        Raises msgspec.DecodeError where the text is not JSON.
        """
        if self.decoder is None or self._key() != self._made_for:  # a run that was given up may have taught its shapes
            return None
        try:
            found = self.decoder.decode(text)
        except msgspec.ValidationError:
            self.failures += 1
            return None
        self.failures = max(self.failures - 1, 0)
        return found

    def learn(self, events: Sequence[Any], shapes: Mapping[str, Shape]) -> None:
        """Take in events that were decoded the slower way; `shapes` are those of their categories as written."""
        by_category: dict[str, list[Any]] = {}
        for event in events if not self.hopeless else ():
            if event.cat is not None:
                by_category.setdefault(event.cat, []).append(event)
        for written, those in by_category.items():
            self.known.setdefault(written, Form(shapes[written])).learn(those)
        if self.hopeless:
            self.decoder = None
        elif self._key() != self._made_for:
            types = [form.struct(written, place) for place, (written, form) in enumerate(self.known.items())]
            self.by_type = {kind: place for place, kind in enumerate(types)}
            self.decoder = msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]  # made above
            self._made_for = self._key()

    def give_up(self) -> None:
        """Decode nothing any more: the file's times need a decoder that these are not."""
        self.failures, self.decoder = MOST_FAILURES + 1, None

    def _key(self) -> tuple[object, ...]:
        return tuple(form.key() for form in self.known.values())
