"""Open a trace file: find the format that knows it by its content, and read it."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._bytes import Inflated, first_bytes
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.trace import Trace

FORMATS = "profiler_doctor.analyzer.formats"


def read(path: str | Path) -> Trace:
    """The trace in a file. Raises UnreadableTrace with a sentence where there is none."""
    file = Path(path)
    head = _head(file)
    for known in plugins.find(FORMATS, Format).items:
        if known.knows(head, file):
            return known.read(file)
    raise UnreadableTrace(_not_a_trace(file, head))


def _head(file: Path) -> bytes:
    if file.is_dir():
        raise UnreadableTrace(f"{file} is a folder; name one trace file in it.")
    try:
        head = first_bytes(file)
    except OSError as error:
        raise UnreadableTrace(f"{file} cannot be opened: {error.strerror or error}.") from error
    if not head.strip():
        raise UnreadableTrace(_empty(file))
    return head


def _empty(file: Path) -> str:
    inflated = Inflated(file)
    if not any(piece.strip() for piece in inflated) and inflated.broken:
        return f"{file} is not a trace: {inflated.broken}, before the first byte of text."
    return f"{file} is empty: the program was ended before its profiler wrote the trace."


def _not_a_trace(file: Path, head: bytes) -> str:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    at = len(head) - len(start)
    kinds = {b"SQLite format 3": "an SQLite database", b"PK\x03\x04": "a zip archive", b"<": "an HTML or XML page"}
    for mark, kind in kinds.items():
        if start.startswith(mark):
            return f"{file} is {kind}, not a trace that a reader here knows; export a chrome trace (JSON) instead."
    if own := _our_own(start):
        return f"{file} is {own}"
    if start[:1] in (b"{", b"["):
        return f"{file} is JSON, but not a trace: no traceEvents, and no list of events from byte {at} on."
    shown = start[:12].decode("latin-1")
    return f"{file} is not a trace: byte {at} starts {shown!r}, where a chrome trace has {{ or [."


def _our_own(start: bytes) -> str:
    """Which of our own documents it is, and what reads that; empty: none."""
    if start.startswith(b"{") and b'"subject"' in start and b'"command"' in start:
        return "no trace but a finished diagnosis: `report` shows it, `compare` holds it against another."
    if start.startswith(b"{") and b'"schema_version"' in start:
        kind = "the answer" if b'"verdict"' in start else "the baseline"
        return f"no trace but {kind} of a check: `check --baseline` compares what was counted."
    return ""
