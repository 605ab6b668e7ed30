"""The way to the first event of a chrome trace, and what stands around the list of events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._repair import header
from profiler_doctor.analyzer.formats._text import CHUNK_BYTES, Window

EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*(?=\[)')
LONGEST_HEAD = 1 << 28
"""Bytes before the first event, and after the last one; kineto's are a few KB, a job's metadata may be some MB."""
BLANK = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True)
class Opening:
    """What stood before the list of events: nothing for a bare list, else the text up to the list."""

    bare: bool
    head: str = ""


def open_list(window: Window) -> Opening:
    """Move the window to the bracket of the list of events. Raises UnreadableTrace where there is no list of events."""
    window.fill()
    blank = len(window.text) - len(window.text.lstrip(BLANK))
    window.drop(blank)
    if window.text.startswith(b"["):
        return Opening(bare=True)
    if not window.text.startswith(b"{"):
        shown = bytes(window.text[:12]).decode("utf-8", "replace")
        raise UnreadableTrace(_refused(window, f"byte {window.passed} starts {shown!r}, where JSON has {{ or [."))
    end = _events_key(window)
    head = bytes(window.text[:end]).decode("utf-8", "replace")
    window.drop(end)
    return Opening(bare=False, head=head)


def _events_key(window: Window) -> int:
    """The place of the list's bracket: of the first traceEvents that is a key of the outermost object."""
    size = CHUNK_BYTES
    while True:
        found = [match.end() for match in EVENTS_KEY.finditer(window.text)]
        for attempt in (_whole, _mendable):
            for end in found:
                if attempt(bytes(window.text[:end]).decode("utf-8", "replace")):
                    return end
        if window.at_end or size >= LONGEST_HEAD:
            break
        size *= 2
        window.fill(size)
    if found:
        return found[0]  # what stands before it is beyond mending; the events may not be
    if window.at_end:
        raise UnreadableTrace(_refused(window, _without_events(window)))
    raise UnreadableTrace(_refused(window, f"its first {size} bytes hold no list called traceEvents."))


def _whole(head: str) -> bool:
    value, lost = header(head + "[]}")
    return value is not None and lost == 0


def _mendable(head: str) -> bool:
    return header(head + "[]}")[0] is not None


def _without_events(window: Window) -> str:
    end = window.passed + len(window.text)
    if window.file.broken:
        return f"{window.file.broken}, after {end} bytes of text and before the first event."
    if header(bytes(window.text).decode("utf-8", "replace"))[0] is not None:
        return "it is JSON, but has no list called traceEvents."
    return f"it breaks off at byte {end}, before the first event."


def _refused(window: Window, why: str) -> str:
    return f"{window.file.path} is not a trace: {why}"


@dataclass(frozen=True)
class Around:
    """The outermost object without its events; `keys` are in file order. `lost` lines were beyond mending."""

    metadata: Mapping[str, Any]
    keys: tuple[str, ...]
    lost: int = 0
    closed: bool = True


def around(opening: Opening, window: Window, closed: bool) -> Around:
    """Read what follows the events, and put it together with what stood before them."""
    if opening.bare:
        return Around({}, ())
    tail = window.rest(LONGEST_HEAD) if closed else ""
    value, lost = header(f"{opening.head}[]{tail}") if closed else (None, 0)
    whole = value is not None
    if value is None:  # the file's end is missing: the head alone
        value, lost = header(opening.head + "[]}")
    if value is None:
        return Around({}, (), lost=1, closed=whole)
    metadata = {key: entry for key, entry in value.items() if key != "traceEvents"}
    return Around(metadata, tuple(value), lost, whole)
