"""What an xplane and an Nsight export hold, worked out the plain way: a walk over bytes, SQL. Not by our readers."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.plain_reference import covered


class PlainEvent(NamedTuple):
    """One event of an xplane; times in picoseconds, the line's own begin included."""

    plane: str
    line: str
    name: str
    start_ps: int
    end_ps: int
    correlation: int | None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, int or bytes) of one message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        else:
            size, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            yield key >> 3, data[at : at + size]
            at += size


def _names(plane: list[tuple[int, Any]], which: int) -> dict[int, str]:
    entries = [dict(fields(value)) for number, value in plane if number == which]
    described = [dict(fields(entry[2])) for entry in entries]
    return {entry.get(1, 0): text.get(2, b"").decode() for entry, text in zip(entries, described, strict=True)}


def xplane_events(path: Path) -> list[PlainEvent]:
    """All events of all lines of all planes."""
    found = []
    for plane in [list(fields(value)) for number, value in fields(path.read_bytes()) if number == 1]:
        events, stats = _names(plane, 4), _names(plane, 5)
        name = next((value.decode() for number, value in plane if number == 2), "")
        for line in [list(fields(value)) for number, value in plane if number == 3]:
            about = {number: value for number, value in line if number in (2, 3)}
            begin = about.get(3, 0) * 1000
            for event in [list(fields(value)) for number, value in line if number == 4]:
                core = dict(event)
                marks = [dict(fields(value)) for number, value in event if number == 4]
                numbers = {stats.get(mark.get(1, 0)): mark.get(3, mark.get(4)) for mark in marks}
                start = begin + core.get(2, 0)
                times = (start, start + core.get(3, 0))
                where = (name, about.get(2, b"").decode(), events.get(core.get(1, 0), ""))
                found.append(PlainEvent(*where, *times, numbers.get("correlation_id")))
    return found


def xplane_device_numbers(path: Path) -> dict[int, tuple[int, int, int]]:
    """GPU → (events on its streams, their time in ns, the union of it)."""
    work: dict[int, list[tuple[int, int]]] = {}
    for event in xplane_events(path):
        device = re.match(r"/device:GPU:(\d+)", event.plane)
        if device and event.line.startswith("Stream #"):
            times = (event.start_ps // 1000, event.end_ps // 1000)
            work.setdefault(int(device[1]), []).append(times)
    return {
        device: (len(times), sum(end - start for start, end in times), covered(times)) for device, times in work.items()
    }


def nsys_calls(path: Path) -> list[tuple[str, int, int, int]]:
    """(name, start, duration, correlation) of every CUDA call, by start."""
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        return database.execute(
            "SELECT value, start, end - start, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call "
            "JOIN StringIds ON StringIds.id = call.nameId ORDER BY start"
        ).fetchall()


def nsys_overhead(path: Path) -> list[tuple[str, int, int]]:
    """(name, start, duration) of the profiler's own work, by start, the longer one first."""
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        return database.execute(
            "SELECT value, start, end - start FROM PROFILER_OVERHEAD JOIN StringIds ON StringIds.id = nameId "
            "ORDER BY start, start - end"
        ).fetchall()
