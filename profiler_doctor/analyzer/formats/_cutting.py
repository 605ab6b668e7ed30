"""A trace cut to a window of time: what lies in it, what is linked to that by an arrow, and all names.

Two walks through the file, and a few bytes an event in memory: the first to see where the events and the arrows are,
the second to let pass what stays, in the very bytes it was written in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.formats._apart import EventList, Run, Timed
from profiler_doctor.analyzer.trace import Bools, Ints

Floats = npt.NDArray[np.float64]
SLICE = "X"
BY_TIME = frozenset((SLICE, "i", "I", "R", "C", "P"))
"""Phases of events that can go one by one. Pairs of begin and end, and names, stay wherever they are."""
ARROWS = frozenset("stf")
HALVINGS = 60
"""Steps of the search for the widest window: enough for nanoseconds within a year."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Where the events of a trace are, in microseconds as its text has them, and how many bytes each takes."""

    starts_us: Floats
    sizes: Ints
    """Of the events that can go, in the order of their starts."""
    kept_bytes: int
    """What stays whatever the window."""
    arrows: Ints
    arrow_times_us: Floats
    places: Ints
    """Of each end of an arrow: the arrow's identity, its time, and the identity of its thread and time."""
    text_bytes: int
    """The length of the whole text up to the end of the list of events."""


def survey(path: Path) -> Survey:
    """Walk through a chrome trace. Raises UnreadableTrace where it is none."""
    starts, sizes = array("d"), array("q")
    arrows, times, places = array("q"), array("d"), array("q")
    kept, parts = 0, EventList(path)
    for run in parts.runs():
        for event, written in zip(run.known, run.written, strict=True):
            time = _us(event.ts)
            if time is not None and (event.ph in BY_TIME or event.ph in ARROWS):
                starts.append(time)
                sizes.append(len(written))
            else:
                kept += len(written)
            if event.ph in ARROWS and time is not None:
                arrows.append(hash((event.cat, event.id)))
                times.append(time)
                places.append(_place(event))
    order = np.argsort(np.asarray(starts), kind="stable")
    return Survey(
        starts_us=np.asarray(starts)[order],
        sizes=np.asarray(sizes, dtype=np.int64)[order],
        kept_bytes=kept,
        arrows=np.asarray(arrows, dtype=np.int64),
        arrow_times_us=np.asarray(times),
        places=np.asarray(places, dtype=np.int64),
        text_bytes=parts.window.passed,
    )


def widest_window(found: Survey, focus_ns: tuple[int, int] | None, most_bytes: int) -> tuple[int, int]:
    """The window around `focus_ns` (None: the middle event) whose events take no more than `most_bytes`, in ns.

    It holds the focus even where that alone takes more, and grows to both sides alike until one of them ends.
    """
    starts = found.starts_us
    if not len(starts):
        return (0, 0)
    middle = float(starts[len(starts) // 2])
    begin, end = (focus_ns[0] / 1000, focus_ns[1] / 1000) if focus_ns else (middle, middle)
    before = np.concatenate(([0], np.cumsum(found.sizes)))

    def taken(margin: float) -> int:
        first = np.searchsorted(starts, begin - margin, "left")
        return int(before[np.searchsorted(starts, end + margin, "right")] - before[first])

    low, high = 0.0, max(float(starts[-1]) - begin, end - float(starts[0]), 0.0)
    if taken(high) <= most_bytes:
        low = high
    for _ in range(HALVINGS):
        margin = (low + high) / 2
        low, high = (margin, high) if taken(margin) <= most_bytes else (low, margin)
    begin, end = max(begin - low, min(float(starts[0]), begin)), min(end + low, max(float(starts[-1]), end))
    return int(begin * 1000), int(end * 1000)


def cut(path: Path, found: Survey, window_ns: tuple[int, int]) -> Iterator[bytes]:
    """The text with the events of the window alone: first its head, then the events, then its tail.

    An event that reaches into the window is in it; an arrow stays whole, with the slices at both its ends.
    """
    keeps = _Keeps(found, (window_ns[0] / 1000, window_ns[1] / 1000))
    parts, first = EventList(path), True
    yield parts.head
    for run in parts.runs():
        stay = np.flatnonzero(keeps.of(run))
        if len(stay):
            text = b",\n".join([run.written[place] for place in stay.tolist()])
            yield text if first else b",\n" + text
            first = False
    yield from parts.tail()


class _Keeps:
    """Which events stay."""

    def __init__(self, found: Survey, window_us: tuple[float, float]) -> None:
        self.begin, self.end = window_us
        inside = (found.arrow_times_us >= self.begin) & (found.arrow_times_us <= self.end)
        linked = np.unique(found.arrows[inside])
        held = np.isin(found.arrows, linked)
        self.arrows = frozenset(linked.tolist())
        self.places = frozenset(found.places[held].tolist())
        self.place_times = np.unique(found.arrow_times_us[held])

    def of(self, run: Run) -> Bools:
        """For every event of a run, whether it stays."""
        known = run.known
        starts = _times([event.ts for event in known], np.nan)
        ends = starts + _times([event.dur for event in known], 0.0)
        stay: Bools = np.isnan(starts) | ((starts <= self.end) & (ends >= self.begin))
        self._linked(known, starts, stay)
        for place, event in enumerate(known):
            if event.ph in ARROWS:
                stay[place] = hash((event.cat, event.id)) in self.arrows
            elif event.ph not in BY_TIME:
                stay[place] = True
        return stay

    def _linked(self, known: Sequence[Timed], starts: Floats, stay: Bools) -> None:
        """Let the slices stay at which an arrow of the window begins or ends."""
        for place in np.flatnonzero(~stay & np.isin(starts, self.place_times)).tolist():
            stay[place] = _place(known[place]) in self.places


def _place(event: Timed) -> int:
    """An arrow's end lies on the slice of its thread that starts at its very time, in every kineto since 1.9."""
    return hash((event.pid, event.tid, event.ts))


def _times(written: Sequence[float | str | None], missing: float) -> Floats:
    return np.array([time if time.__class__ is float else _us(time, missing) for time in written], dtype=np.float64)


def _us(written: float | str | None, missing: float | None = None) -> float | None:
    try:
        return missing if written is None else float(written)
    except ValueError:
        return missing
