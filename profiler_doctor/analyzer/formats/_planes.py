"""The planes of an xplane file: their lines, their tables of names, and what they say of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.formats._protobuf import BYTES, FIXED64, PADDING, Entry, Raw, doubles, march, text, walk
from profiler_doctor.analyzer.trace import Ints

PLANE = 1
"""Field of the outermost message that holds a plane."""
PLANE_ID, PLANE_NAME, LINE, EVENT_NAMES, STAT_NAMES, PLANE_STAT = 1, 2, 3, 4, 5, 6
LINE_ID, LINE_NAME, LINE_TIME, EVENT = 1, 2, 3, 4
KEY, VALUE = 1, 2
"""Of an entry of a map."""
NAME = 2
"""Of the description of an event or of a stat."""
STAT_KEY, DOUBLE, UNSIGNED, SIGNED, TEXT, BLOB, REFERENCE = 1, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True, eq=False)
class Line:
    """One row of a viewer: a thread, a stream. Event `i` is the message from `starts[i]` to `ends[i]`."""

    id: int
    name: str
    time_ns: int
    starts: Ints
    ends: Ints


@dataclass(frozen=True, eq=False)
class Plane:
    """A device, the host, or a table of facts without events."""

    name: str
    lines: tuple[Line, ...]
    event_names: Mapping[int, str]
    stat_names: Mapping[int, str]
    stats: Mapping[str, object]

    def thread_names(self) -> Mapping[int, str]:
        """Line id → its name, with the id behind it where two lines share one."""
        names = [line.name for line in self.lines]
        return {
            line.id: line.name if line.name and names.count(line.name) == 1 else f"{line.name}/{line.id}"
            for line in self.lines
        }


def planes(data: Raw, trouble: Counter[str]) -> list[Plane]:
    """All planes of a file; `trouble["broken"]` counts the messages that are not whole."""
    end = len(data) - PADDING
    found = walk(data, 0, end, trouble)
    return [_plane(data, entry, trouble) for entry in found if entry.number == PLANE and entry.wire == BYTES]


def _plane(data: Raw, plane: Entry, trouble: Counter[str]) -> Plane:
    fields = list(walk(data, plane.start, plane.end, trouble))
    parts = [field for field in fields if field.wire == BYTES]
    stat_names = _names(data, [part for part in parts if part.number == STAT_NAMES], trouble)
    name = next((text(data, part.start, part.end) for part in parts if part.number == PLANE_NAME), "")
    return Plane(
        name=name,
        lines=tuple(_line(data, part, trouble) for part in parts if part.number == LINE),
        event_names=_names(data, [part for part in parts if part.number == EVENT_NAMES], trouble),
        stat_names=stat_names,
        stats=dict(_stat(data, part, stat_names, trouble) for part in parts if part.number == PLANE_STAT),
    )


def _line(data: Raw, line: Entry, trouble: Counter[str]) -> Line:
    fields = list(walk(data, line.start, line.end, trouble))
    events = [(field.start, field.end) for field in fields if field.number == EVENT and field.wire == BYTES]
    numbers = {field.number: field.value for field in fields if field.number in (LINE_ID, LINE_TIME)}
    name = next((text(data, field.start, field.end) for field in fields if field.number == LINE_NAME), "")
    edges = np.array(events, np.int64).reshape(-1, 2)
    return Line(numbers.get(LINE_ID, 0), name, numbers.get(LINE_TIME, 0), edges[:, 0], edges[:, 1])


def _names(data: Raw, entries: list[Entry], trouble: Counter[str]) -> dict[int, str]:
    """A table of descriptions as id → name."""
    starts, ends = (np.array([getattr(entry, edge) for entry in entries], np.int64) for edge in ("start", "end"))
    pairs = march(data, starts, ends, trouble)
    ids = pairs.of(KEY).last_value(len(entries)).tolist()
    described = pairs.of(VALUE)
    names = march(data, described.start, described.end, trouble).of(NAME)
    owners = described.owner[names.owner].tolist()
    spans = zip(names.start.tolist(), names.end.tolist(), strict=True)
    return {ids[owner]: text(data, *span) for owner, span in zip(owners, spans, strict=True)}


def _stat(data: Raw, stat: Entry, names: Mapping[int, str], trouble: Counter[str]) -> tuple[str, object]:
    name = ""
    value: object = None
    for field in walk(data, stat.start, stat.end, trouble):
        if field.number == STAT_KEY:
            name = names.get(field.value, "")
        elif field.number == DOUBLE and field.wire == FIXED64 and field.end - field.start == 8:
            value = float(doubles(data, np.array([field.start]))[0])
        elif field.number in (UNSIGNED, SIGNED):
            value = field.value
        elif field.number == TEXT:
            value = text(data, field.start, field.end)
        elif field.number == REFERENCE:
            value = names.get(field.value, "")
    return name, value
