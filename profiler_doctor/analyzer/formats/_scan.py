"""The careful way through a run of events: one at a time, mended where the text can be, counted where it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._repair import mended

EVENT_KEYS = "ph|name|cat|pid|tid|ts|dur|id|args|s|bp|cname|tts|tdur"
BOUNDARY = re.compile(r'\}\s*,\s*(?=\{\s*"(?:' + EVENT_KEYS + r')"\s*:)')
"""Where one event ends and the next begins: no text of a valid file can hold it, for its quotes would be escaped."""
LAST = re.compile(r'\}(?=\s*\]\s*(?:,\s*"|\}|$))')
"""Where the last event of the list may end."""
BETWEEN = re.compile(r"[\s,]*")
WORD = re.compile(r'[^\s,\]{\["]+')
"""What is no event and no text, to where one may begin."""
LONGEST_EVENT = 1 << 24
"""Characters. What is longer and no valid event is not mended but left out."""
NEAR = 1 << 14
"""Characters that are looked at first: a failure costs Python's reader a walk through all it was given."""
LONGEST_WORD = 16
"""Characters of null, -Infinity, an escape: a word that was cut off is complained of at its start."""
FLUSH = 1 << 14
LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character, which no text can hold."""


@dataclass(frozen=True)
class Scanned:
    """How far a scan came: characters used, whether the list of events ended there, characters lost at the end."""

    used: int
    ended: bool
    lost: int = 0


class CarefulReader:
    """Reads events with Python's own JSON reader; puts them into the columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.waiting: list[Mapping[str, Any]] = []
        self.json = json.JSONDecoder(parse_float=self._decimal, parse_constant=self._constant, strict=False)

    def _constant(self, name: str) -> None:  # noqa: ARG002  # NaN, Infinity: JSON's own reader asks what they mean
        self.columns.trouble["constant"] += 1

    def _decimal(self, written: str) -> Decimal | None:
        try:
            return Decimal(written)
        except InvalidOperation:  # an exponent beyond all bounds
            self._constant(written)
            return None

    def scan(self, text: str, at_end: bool) -> Scanned:
        """Take all events from the start of `text` on.

        What follows the last boundary is left for the next call, unless the file ends here (`at_end`): then an event
        that breaks off is counted as lost. The list's closing bracket ends the scan.
        """
        text, halves = LONE_SURROGATE.subn(r"\\ufffd", text)
        self.columns.trouble["encoding"] += halves
        place = 0
        while True:
            place = BETWEEN.match(text, place).end()  # type: ignore[union-attr]  # it matches the empty text too
            if text.startswith("]", place):
                return self._done(Scanned(place, True))
            if place >= len(text):
                return self._done(Scanned(place, False))
            after = self._take(text, place)
            if after is None:
                return self._done(Scanned(place, False, len(text) - place if at_end else 0))
            place = after

    def _take(self, text: str, place: int) -> int | None:
        """Read the event at `place`; where the next one begins, None where this one's end is not in `text`."""
        if text[place] not in '{["':
            self.columns.trouble["dropped"] += 1
            return WORD.match(text, place).end()  # type: ignore[union-attr]  # the character at `place` is one of it
        reach = NEAR
        while True:
            piece, constants = text[place : place + reach], self.columns.trouble["constant"]
            whole = place + reach >= len(text)
            try:
                value, used = self.json.raw_decode(piece)
            except (ValueError, RecursionError) as error:
                self.columns.trouble["constant"] = constants
                if whole or not _may_be_cut(error, len(piece)):
                    return self._mend(text, place)
            else:
                if whole or used < len(piece):
                    self._keep(value)
                    return place + used
            reach *= 8

    def _mend(self, text: str, place: int) -> int | None:
        """Read a broken event; its end is the next boundary, or the list's end. None: it is not all there yet."""
        found = BOUNDARY.search(text, place)
        end = found.start() + 1 if found else next((last.end() for last in LAST.finditer(text, place)), None)
        if end is None:
            return None
        value = mended(text[place:end], self.json) if end - place <= LONGEST_EVENT else None
        self.columns.trouble["dropped" if value is None else "mended"] += 1
        if value is not None:
            self._keep(value)
        return end

    def _keep(self, value: object) -> None:
        if isinstance(value, dict):
            self.waiting.append(value)
        else:
            self.columns.trouble["dropped"] += 1
        if len(self.waiting) >= FLUSH:
            self.flush()

    def flush(self) -> None:
        """Hand the events read so far to the columns."""
        if self.waiting:
            self.columns.add_events(self.waiting)
            self.waiting = []

    def _done(self, scanned: Scanned) -> Scanned:
        self.flush()
        return scanned


def _may_be_cut(error: ValueError | RecursionError, length: int) -> bool:
    """Whether more text could have helped: the text ended within a string, or where the reader stood."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos > length - LONGEST_WORD
