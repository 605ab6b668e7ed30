"""The list of events of a chrome trace as single events, each in the very bytes it was written in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.formats._opening import open_list
from profiler_doctor.analyzer.formats._scan import BETWEEN, BOUNDARY, LAST
from profiler_doctor.analyzer.formats._text import CHUNK_BYTES, Window

WIDEST = 1 << 26
"""Bytes without the end of an event that are waited for before the rest of the text is given up."""
RAW: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


class Timed(msgspec.Struct, gc=False):
    """What of an event says where it stands: its other keys are not read. Times are microseconds."""

    ph: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    id: int | str | None = None


UNKNOWN = Timed()
"""Stands for an event that cannot be read."""
ALL: msgspec.json.Decoder[list[Timed]] = msgspec.json.Decoder(list[Timed])
ONE: msgspec.json.Decoder[Timed] = msgspec.json.Decoder(Timed)


@dataclass(frozen=True, slots=True)
class Run:
    """Events that follow one another: as written, and what is known of each."""

    written: Sequence[bytes | msgspec.Raw]
    known: Sequence[Timed]


class EventList:
    """The three parts of a trace's text, to be taken in this order: `head`, `runs()`, `tail()`.

    Raises UnreadableTrace where there is no list of events.
    """

    def __init__(self, path: Path) -> None:
        self.window = Window(path)
        self.opening = open_list(self.window)
        self.window.drop(1)
        self.closed = False

    @property
    def head(self) -> bytes:
        """The text up to and with the bracket that opens the list."""
        return self.opening.head.encode("utf-8", "replace") + b"["

    def runs(self) -> Iterator[Run]:
        """All events in the file's order. One that breaks off at the file's end is left out."""
        size = CHUNK_BYTES
        while not self.closed and size <= WIDEST:
            self.window.fill(size)
            run = self._quick() or self._careful()
            size = CHUNK_BYTES if run.written else 2 * max(size, len(self.window.text))
            if run.written:
                yield run
            elif self.window.at_end:
                return

    def tail(self) -> Iterator[bytes]:
        """What follows the last event: as it is in the file, or where that broke off the brackets it lacks."""
        if not self.closed:
            yield b"]" if self.opening.bare else b"]}"
            return
        yield bytes(self.window.text)
        yield from self.window.pieces

    def _quick(self) -> Run | None:
        comma = self.window.last_comma()
        if comma is None:
            return None
        text = b"".join((b"[", memoryview(self.window.text)[:comma], b"]"))
        try:
            written = RAW.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        try:
            known = ALL.decode(text)
        except (msgspec.DecodeError, RecursionError):  # one of them has an odd type somewhere
            known = [_known(bytes(event)) for event in written]
        self.window.drop(comma + 1)
        return Run(written, known)

    def _careful(self) -> Run:
        """The events one by one, as far as the window holds them; the list's closing bracket stays in it."""
        text, place = bytes(self.window.text).decode("utf-8", "surrogateescape"), 0
        written = []
        while (end := self._end(text, start := BETWEEN.match(text, place).end())) is not None:  # type: ignore[union-attr]  # it matches the empty text too
            written.append(text[start:end].encode("utf-8", "surrogateescape"))
            place = end
        self.window.drop(len(text[: start if self.closed else place].encode("utf-8", "surrogateescape")))
        return Run(written, [_known(event) for event in written])

    def _end(self, text: str, start: int) -> int | None:
        """Where the event at `start` ends. None where the list does, or where the event is not all there yet."""
        if text.startswith("]", start):
            self.closed = True
            return None
        try:
            return int(json.JSONDecoder(strict=False).raw_decode(text, start)[1])
        except (ValueError, RecursionError):
            found = BOUNDARY.search(text, start) or LAST.search(text, start)
            return found.start() + 1 if found else None


def _known(written: bytes) -> Timed:
    try:
        return ONE.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return UNKNOWN
