"""All events of a chrome trace into columns, chunk by chunk: the fastest way that is certain of what it reads.

The tokenizer in C where it was built; without it, and from its first doubt on, msgspec; Python's own reader for what is
broken or rare. Each hands the text on from the last event that it is certain of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._scan import CarefulReader
from profiler_doctor.analyzer.formats._text import CHUNK_BYTES, Window
from profiler_doctor.analyzer.formats._tokens import tokens
from profiler_doctor.analyzer.formats._typed import NOT_FOR_US, TypedReader

AFTER_THE_LIST = re.compile(r"trailing characters \(byte (\d+)\)")
"""msgspec's way of saying that the list had ended before; the number is that of the byte after the first such one."""
DONE = -1
FIRST_BYTES = 1 << 16
"""The first runs are short, for most of what they teach has to be read the slower way."""
WIDEST = 1 << 26
"""Bytes without a boundary between two events that are waited for before the text is given up."""


@dataclass(frozen=True)
class Read:
    """Whether the list of events was closed, and how many bytes of text at the end held no complete event."""

    closed: bool
    lost: int = 0


def read_events(window: Window, columns: Columns) -> Read:
    """Read the list whose bracket is first in the window, up to and with its closing bracket."""
    native, typed, careful = tokens(columns), TypedReader(columns), CarefulReader(columns)
    size = min(FIRST_BYTES, CHUNK_BYTES)
    while True:
        window.fill(size)
        closed = native.read(window) if native else None
        if closed is None:
            closed = _fast(window, typed)
        if closed is not None:
            size = min(2 * size, CHUNK_BYTES)
        else:
            before = len(window.text)
            closed, lost = _careful(window, careful)
            if lost or (window.at_end and not closed and len(window.text) <= 1):
                return Read(False, lost)
            size = CHUNK_BYTES if len(window.text) < before else max(2 * before, CHUNK_BYTES)
            if size > WIDEST:
                return Read(False, len(window.text))
        if closed:
            return Read(True)


def _fast(window: Window, typed: TypedReader) -> bool | None:
    """Read as much of the window as is certain. Whether the list was closed; None where the careful way must go.

    The window starts with the list's bracket, or with the comma after the last event read. Brackets are put in place of
    that comma and the last one while it is read, so that no text is copied.
    """
    comma = None if window.at_end else window.last_comma()
    if comma is None and not window.at_end:
        return None
    end = len(window.text) if comma is None else comma + 1
    window.text[:1] = b"["
    if comma is not None:
        window.text[comma:end] = b"]"
    closed_at = _add(typed, memoryview(window.text)[:end])
    if comma is not None:
        window.text[comma:end] = b","
    if closed_at is None:
        return None
    if closed_at == DONE:
        window.drop(len(window.text) if comma is None else comma)
        return comma is None
    if _add(typed, memoryview(window.text)[:closed_at]) != DONE:
        return None
    window.drop(closed_at)
    return True


def _add(typed: TypedReader, text: memoryview) -> int | None:
    """Add the events: DONE, or where the list had ended before the text did; None where this is not the way."""
    try:
        typed.add(text)
    except (*NOT_FOR_US, RecursionError):
        return None
    except msgspec.DecodeError as error:
        found = AFTER_THE_LIST.search(str(error))
        return int(found[1]) - 1 if found else None
    return DONE


def _careful(window: Window, careful: CarefulReader) -> tuple[bool, int]:
    """Read what the careful way can. Whether the list was closed, and the bytes lost at the file's end."""
    text, rest, wrong = window.decoded()
    careful.columns.trouble["encoding"] += wrong
    scanned = careful.scan(text[1:], window.at_end)
    after = text[1 + scanned.used :]
    lost = len(after.encode("utf-8", "replace")) if scanned.lost else 0
    window.replace(after[1:] if scanned.ended else f",{after}", rest)
    return scanned.ended, lost
