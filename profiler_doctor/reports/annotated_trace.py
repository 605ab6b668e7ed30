"""The recorded trace with our findings on tracks of their own, for Perfetto: every original event stays as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.reports.tracks import track_events

_COMPRESSION = 1
"""isal's level 1: a fifth larger than zlib's usual and ten times as fast; the file is opened once."""
_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_BLANK = b"\xef\xbb\xbf \t\r\n"
_HEAD_BYTES = 64 << 20
"""How far to look for the list of events; no producer writes more than a few MB before it."""


class NotAnnotatable(UserError):
    """The trace is in no form that a chrome trace viewer reads, so nothing can be put into it."""


def render(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:
    """The trace, gzip, with our events put in front of its own. Raises NotAnnotatable.

    The original text is copied as it stands, byte for byte, even where it is no valid JSON; our events go right behind
    the bracket that opens the list, so a file that breaks off before its end can be annotated too.
    """
    if trace_file is None:
        raise NotAnnotatable("there is no trace file to put the findings into.")
    pieces = iter(Inflated(trace_file))
    before, after = _parted(pieces, trace_file)
    ours = ",\n".join(track_events(diagnosis)).encode("ascii")
    comma = b"" if after.lstrip(_BLANK)[:1] in (b"]", b"") else b","
    packer = isal_zlib.compressobj(_COMPRESSION, wbits=31)  # 31: gzip, its header without a time or a name
    packed = [packer.compress(piece) for piece in (before, b"\n", ours, comma, after)]
    packed += [packer.compress(piece) for piece in pieces]
    return b"".join((*packed, packer.flush()))


def _parted(pieces: Iterator[bytes], trace_file: Path) -> tuple[bytes, bytes]:
    """The text up to and with the bracket that opens the list of events, and what has been read beyond it.

    The second part shows the first thing in the list, unless there is none at all.
    """
    text = b""
    for piece in pieces:
        text += piece
        place = _first_place(text)
        if place is not None and text[place:].strip(_BLANK):
            return text[:place], text[place:]
        if len(text) > _HEAD_BYTES or text.lstrip(_BLANK)[:1] not in (b"{", b"[", b""):
            break
    place = _first_place(text)
    if place is None:
        raise NotAnnotatable(
            f"{trace_file} is no chrome trace, so there is no list of events to put the findings into."
        )
    return text[:place], text[place:]


def _first_place(text: bytes) -> int | None:
    """Where the first event would stand: behind the bracket of the root, or of the root's `traceEvents`."""
    root = len(text) - len(text.lstrip(_BLANK))
    if text[root : root + 1] == b"[":
        return root + 1
    keys = list(_KEY.finditer(text))
    at_the_top = (key for key in keys if _depth(text[: key.start()]) == 1)
    # where stray quotes in the header spoil the count, the first one is still the best guess
    key = next(at_the_top, keys[0] if keys else None)
    return key.end() if key else None


def _depth(text: bytes) -> int:
    """How many brackets are open at the end of `text`; those inside strings do not count."""
    opened = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
    return sum(opened.get(token, 0) for token in _TOKEN.findall(text))


REPORT = Report(name="trace", filename="trace-with-findings.json.gz", render=render, needs_trace=True)
