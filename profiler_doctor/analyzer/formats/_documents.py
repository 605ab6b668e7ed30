"""A whole JSON document from a file, for profiles that are one; a broken end is closed behind the last whole event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.model import HealthNote

BOMB_BYTES, BOMB_RATIO = 1 << 28, 200
"""Text of more than 256 MiB that packs more than 200 times is no profile: real ones pack 10 to 60 times."""


def document(path: Path, closing: bytes = b"") -> tuple[Any, tuple[HealthNote, ...]]:
    """The document in a file, and notes on what was lost.

    `closing` is what must follow the last event to make a broken file whole; empty: such a file cannot be saved.
    Raises UnreadableTrace with the byte and the reason.
    """
    text, broken = whole(path)
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        found, fault = _decoded(text), ""
    except (ValueError, RecursionError) as error:
        found, fault = None, str(error)
    if not fault:
        return found, ()
    return _saved(path, text, closing, broken or fault)


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
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # control characters, NaN, bytes that are no UTF-8, huge numbers
        return json.loads(text.decode("utf-8", "replace"), strict=False)


def _saved(path: Path, text: bytes, closing: bytes, fault: str) -> tuple[Any, tuple[HealthNote, ...]]:
    end = len(text)
    for _ in range(8):  # the last few `}` may stand inside the event that broke off
        end = text.rfind(b"}", 0, end)
        if end < 0 or not closing:
            break
        try:
            found = _decoded(text[: end + 1] + closing)
        except (ValueError, RecursionError):
            continue
        return found, (_note(fault, text[end + 1 :]),)
    raise UnreadableTrace(f"{path} cannot be read as JSON: {fault}.")


def _note(fault: str, left: bytes) -> HealthNote:
    if not left.strip(b" \t\r\n,]}"):
        return HealthNote(
            code="JSON-MENDED", message=f"The file's end is malformed ({fault}); no event is lost.", events=0
        )
    said = f"The file breaks off ({fault}): its last {len(left)} bytes are lost, all before them is read."
    return HealthNote(code="TRUNCATED", message=said, events=1)
