"""JSON profiles that are one document: whole where they are whole, event by event where something in them is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.formats._notes import broken_off, notes
from profiler_doctor.analyzer.model import HealthNote

BOMB_BYTES, BOMB_RATIO = 1 << 28, 200
"""Text of more than 256 MiB that packs more than 200 times is no profile: real ones pack 10 to 60 times."""
NEXT_EVENT = re.compile(r"\}\s*,\s*(?=\{)")
CLOSED = re.compile(r"[\s,]*\]")
"""The end of a list of events, after the comma that some writers leave there."""


@dataclass(frozen=True)
class Written:
    """The events of a file as JSON objects, what stands around them, and what was lost."""

    events: list[Mapping[str, Any]]
    around: Mapping[str, Any]
    health: tuple[HealthNote, ...]


def written(path: Path, key: str | None) -> Written:
    """The events of a JSON file: its list, or with a `key` the list under it in an object.

    Raises UnreadableTrace where there is no such list.
    """
    text, broken = whole(path)
    try:
        found = _decoded(text)
    except (ValueError, RecursionError):
        return _event_by_event(path, text, key, broken)
    around = {name: value for name, value in found.items() if name != key} if key and isinstance(found, dict) else {}
    events = found.get(key) if key and isinstance(found, dict) else found
    if not isinstance(events, list):
        raise UnreadableTrace(f"{path} has no list of events where its kind of profile has one.")
    return Written([event for event in events if isinstance(event, dict)], around, broken_off(broken, 0, closed=True))


def document(path: Path) -> Any:
    """The one JSON value in a file. Raises UnreadableTrace with the byte and the reason."""
    text, broken = whole(path)
    try:
        return _decoded(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableTrace(f"{path} cannot be read as JSON: {broken or error}.") from error


def whole(path: Path) -> tuple[bytes, str]:
    """All bytes of a file, inflated, and why they end too early ("": they do not). A bomb is an UnreadableTrace."""
    pieces, length, most = [], 0, max(BOMB_BYTES, path.stat().st_size * BOMB_RATIO)
    inflated = Inflated(path)
    for piece in inflated:
        pieces.append(piece)
        length += len(piece)
        if length > most:
            raise UnreadableTrace(f"{path} unpacks to more than {BOMB_RATIO} times its size, as no profile does.")
    return b"".join(pieces), inflated.broken


def _decoded(text: bytes) -> Any:
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # control characters, NaN, bytes that are no UTF-8, huge numbers
        return json.loads(text.decode("utf-8", "replace"), strict=False)


def _event_by_event(path: Path, content: bytes, key: str | None, broken: str) -> Written:
    """Every event that is whole; the others are counted."""
    text, decoder = content.decode("utf-8", "replace"), json.JSONDecoder(strict=False)
    begin = re.compile(rf'"{key}"\s*:\s*\[' if key else r"\[").search(text)
    events, dropped, at = [], 0, begin.end() if begin else len(text)
    while (start := text.find("{", at)) >= 0 and not CLOSED.match(text, at):
        try:
            event, at = decoder.raw_decode(text, start)
            events.append(event)
        except (ValueError, RecursionError):
            behind = NEXT_EVENT.search(text, start)
            if behind is None:
                break
            at, dropped = behind.end(), dropped + 1
    if not events:
        raise UnreadableTrace(f"{path} holds no event that can be read; it breaks off or is damaged from the start.")
    lost = len(text) - at
    ended = broken_off(broken, lost, closed=CLOSED.match(text, at) is not None)
    return Written(events, {}, (*ended, *notes({"dropped": dropped})))
