"""What of a trace a viewer in a browser can hold: all of it, or a window around the finding of interest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.formats._cutting import Survey, cut, survey, widest_window
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.verdict import found_outcomes

LABEL = "profiler_doctor_cut"
"""The name of the metadata event that says what a cut trace holds."""
_LABELLED = re.compile(rb'"name": "' + LABEL.encode() + rb'".*?"args": (\{[^}]*\})')
_LABEL_BYTES = 1 << 22
"""How far to look for that event: it comes first, behind what kineto writes before the events."""
BEST_PACKED = 60
"""How many times as large as its packing a trace's text can be."""
MB, MS = 1e6, 1e6


class NoSuchPlace(UserError):
    """The finding that was asked for has no place in the trace."""


@dataclass(frozen=True)
class Limits:
    """Bytes of text. Perfetto runs in a browser's 32-bit memory (2 GB as a rule), and its tables take two to four times
    a trace's size (its page "Visualising large traces"); 900 MB of JSON were seen to end it."""

    held: int = 500_000_000
    """What is larger is cut."""
    kept: int = 200_000_000
    """To this: it opens within seconds."""


LIMITS = Limits()


@dataclass(frozen=True)
class Cut:
    """What stays of a trace, in its own nanoseconds, and how much text there was."""

    window_ns: tuple[int, int]
    whole_ns: tuple[int, int]
    whole_bytes: int

    def sentence(self, kept_bytes: int) -> str:
        """From when to when, and how large before and after."""
        begin, end = ((time - self.whole_ns[0]) / MS for time in self.window_ns)
        return (
            f"Cut to what a browser's viewer opens well: {max(begin, 0):,.1f} ms to {end:,.1f} ms of "
            f"{(self.whole_ns[1] - self.whole_ns[0]) / MS:,.1f} ms, {kept_bytes / MB:,.1f} MB of "
            f"{self.whole_bytes / MB:,.1f} MB. Events outside are left out; those that stay are as they were."
        )

    def label(self) -> dict[str, object]:
        """As it is written into the trace."""
        return {"window_ns": self.window_ns, "whole_ns": self.whole_ns, "whole_bytes": self.whole_bytes}


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A trace that is too large, seen through, with the window to be cut out."""

    trace_file: Path
    found: Survey
    cut: Cut

    def text(self) -> Iterator[bytes]:
        """The head up to the bracket of the list of events, then the events, then the tail."""
        return cut(self.trace_file, self.found, self.cut.window_ns)


def excerpt(trace_file: Path, focus_ns: tuple[int, int] | None) -> Excerpt | None:
    """The widest window around the focus (None: the middle) that the viewer holds; None where it holds the whole trace.

    Raises UnreadableTrace where the file is no chrome trace.
    """
    if not _too_large(trace_file, LIMITS.held):
        return None
    found = survey(trace_file)
    window = widest_window(found, focus_ns, LIMITS.kept)
    starts = found.starts_us
    whole = (int(starts[0] * 1000), int(starts[-1] * 1000)) if len(starts) else (0, 0)
    return Excerpt(trace_file, found, Cut(window, whole, found.text_bytes))


def _too_large(trace_file: Path, most: int) -> bool:
    if trace_file.stat().st_size * BEST_PACKED < most:
        return False
    size = 0
    for piece in Inflated(trace_file):
        size += len(piece)
        if size > most:
            return True
    return False


def cut_of(trace_file: Path) -> Cut | None:
    """What a trace of ours was cut to; None where it was not."""
    text = b""
    for piece in Inflated(trace_file):
        text += piece
        found = _LABELLED.search(text)
        if found:
            said = json.loads(found[1])
            return Cut(tuple(said["window_ns"]), tuple(said["whole_ns"]), said["whole_bytes"])
        if len(text) > _LABEL_BYTES:
            break
    return None


def place_of(diagnosis: Diagnosis | None, code: str | None = None) -> tuple[int, int] | None:
    """The first stretch of the finding (None: of the first that has one), in the trace's ns; None: there is none.

    Raises NoSuchPlace where a code is given that has none.
    """
    outcomes = found_outcomes(diagnosis.outcomes) if diagnosis else ()
    placed = [
        (outcome.code, intervals)
        for outcome in outcomes
        for finding in outcome.findings
        if (intervals := finding.evidence.get("intervals_ns"))
    ]
    chosen = [intervals for known, intervals in placed if code in (None, known)]
    if chosen:
        return _first(chosen[0])
    if code is not None:
        known = ", ".join(dict.fromkeys(code for code, _ in placed)) or "none"
        raise NoSuchPlace(f"--at {code}: no finding of that code has a place in this trace. Those that have: {known}.")
    return None


def _first(intervals: object) -> tuple[int, int]:
    assert isinstance(intervals, list | tuple)
    start, end = intervals[0]
    return int(start), int(end)


def middle_step(diagnosis: Diagnosis | None) -> tuple[int, int] | None:
    """Where to look while nothing was found; None: there are no steps."""
    steps = diagnosis.totals.steps if diagnosis else ()
    if not steps:
        return None
    step = steps[len(steps) // 2]
    return step.start_ns, step.start_ns + step.dur_ns
