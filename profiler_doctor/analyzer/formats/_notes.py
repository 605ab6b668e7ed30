"""What was repaired, dropped or cannot be believed in a file, as notes for the health of the trace."""

from __future__ import annotations

from collections.abc import Mapping

from profiler_doctor.analyzer.model import HealthNote

CALLED = {
    "mended": ("EVENTS-MENDED", "events were broken JSON (as quotes in names make it) and were mended"),
    "dropped": ("EVENTS-DROPPED", "events could not be read and are missing from every number"),
    "encoding": ("NOT-UTF8", "characters were not valid UTF-8 and are shown as \ufffd"),
    "constant": ("NOT-A-NUMBER", "values were NaN or Infinity and count as absent"),
    "time": ("TIMES-UNUSABLE", "times were no numbers, or too large to be times"),
    "untimed": ("EVENTS-UNTIMED", "events have no usable time and are in no measure"),
    "far": ("TIMES-FAR", "events stand more than a day away from the others and are in no measure"),
    "negative": ("DURATIONS-NEGATIVE", "durations were negative and count as 0"),
    "argument": ("ARGUMENTS-DROPPED", "arguments that must be numbers were not, and count as absent"),
    "unpadded": (
        "TIMES-UNPADDED",
        "times have fewer than three decimals, as a nightly of spring 2024 wrote them wrongly",
    ),
    "header": ("HEADER-MENDED", "lines of the file's header were broken and left out"),
    "unknown": ("CATEGORIES-UNKNOWN", "events are of categories that no measure uses"),
}
"""Kind of trouble → code, and the words that follow the number."""


def notes(trouble: Mapping[str, int]) -> tuple[HealthNote, ...]:
    """A note for every kind of trouble that was met."""
    return tuple(
        HealthNote(code=code, message=f"{trouble[kind]} {words}.", events=trouble[kind])
        for kind, (code, words) in CALLED.items()
        if trouble.get(kind, 0)
    )


def broken_off(compression: str, lost: int, closed: bool) -> tuple[HealthNote, ...]:
    """A note where the file ends before the list of events does."""
    if closed and not compression:
        return ()
    why = f" ({compression})" if compression else ""
    said = f"The file breaks off{why}: all complete events were read, {lost} bytes at the end were lost."
    return (HealthNote(code="TRUNCATED", message=said),)
