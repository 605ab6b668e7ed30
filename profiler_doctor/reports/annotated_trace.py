"""The recorded trace with our findings on tracks of their own, for Perfetto: what it keeps stays as it was."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from os import SEEK_END
from pathlib import Path

from isal import isal_zlib

from profiler_doctor.analyzer.errors import UnreadableTrace, UserError
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.reports.tracks import named, track_events
from profiler_doctor.reports.viewable import LABEL, Excerpt, cut_of, excerpt, middle_step, place_of

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
    the bracket that opens the list, so a file that breaks off before its end can be annotated too. What a viewer cannot
    hold is cut to a window around the first finding.
    """
    if trace_file is None:
        raise NotAnnotatable("there is no trace file to put the findings into.")
    part = _excerpt(diagnosis, trace_file)
    return b"".join(_packed(_whole(diagnosis, trace_file) if part is None else around(diagnosis, part)))


def around(diagnosis: Diagnosis | None, part: Excerpt) -> Iterator[bytes]:
    """The text of a cut trace, our findings in front, with a note of what it was cut to."""
    text = part.text()
    yield next(text)
    ours = [named(LABEL, part.cut.label(), 0)]
    if diagnosis is not None:
        ours += track_events(diagnosis, part.cut.window_ns)
    yield ",\n".join(ours).encode("ascii")
    first = next(text)
    yield (b"" if first.lstrip().startswith(b"]") else b",\n") + first
    yield from text


def written_around(diagnosis: Diagnosis | None, part: Excerpt, target: Path) -> Path:
    """The cut trace as a file. Raises OSError."""
    with target.open("wb") as file:
        file.writelines(_packed(around(diagnosis, part)))
    return target


def _packed(text: Iterable[bytes]) -> Iterator[bytes]:
    """The text as gzip."""
    packer = isal_zlib.compressobj(_COMPRESSION, wbits=31)  # 31: gzip, its header without a time or a name
    yield from map(packer.compress, text)
    yield packer.flush()


def _excerpt(diagnosis: Diagnosis, trace_file: Path) -> Excerpt | None:
    """What is to be cut out; None where the viewer holds the whole, or the file is nothing that could be cut."""
    try:
        return excerpt(trace_file, place_of(diagnosis) or middle_step(diagnosis))
    except UnreadableTrace:
        return None


def _whole(diagnosis: Diagnosis, trace_file: Path) -> Iterator[bytes]:
    pieces = iter(Inflated(trace_file))
    before, after = _parted(pieces, trace_file)
    ours = ",\n".join(track_events(diagnosis)).encode("ascii")
    comma = b"" if after.lstrip(_BLANK)[:1] in (b"]", b"") else b","
    yield from (before, b"\n", ours, comma, after)
    yield from pieces


def remark(written: Path) -> str:
    """What was left out, and how to see it. A gzip file ends with the length of its text."""
    cut = cut_of(written)
    if cut is None:
        return ""
    with written.open("rb") as file:
        file.seek(-4, SEEK_END)
        return f"{written.name}: {cut.sentence(int.from_bytes(file.read(), 'little'))}"


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


REPORT = Report(name="trace", filename="trace-with-findings.json.gz", render=render, needs_trace=True, remark=remark)
