"""Pauses of Python's garbage collector while something is recorded."""

from __future__ import annotations

import gc
import sys
import time
from types import FrameType

from profiler_doctor.analyzer.capture.child.own_code import Place, own_place

MOST = 1000
"""Pauses kept; a program with more of them in a few steps is known well enough."""
MOST_PLACES = 8
TOLD_FROM_NS = 100_000
"""Shorter ones are not worth looking up where they struck: there are many of them, and each look takes microseconds."""


class Pauses:
    """Listens to the collector between a recording's begin and its end, and sums its pauses up in the time after."""

    def __init__(self) -> None:
        self.found_ns: list[tuple[int, int, int]] = []
        """Start (wall clock), duration, generation."""
        self._places_ns: dict[Place, int] = {}
        """The script's own line that was under way → ns of the longer pauses there."""
        self._begun_ns = self._clock_ns = 0
        self._since_ns = self._sum_ns = 0
        self._recording = False

    def recording(self, begins: bool) -> None:
        """A recording begins or ends."""
        self._recording = begins
        self._listen(begins)

    def sum_up(self) -> None:
        """From now on only the sum counts.

        What the recording has left is collected before: the pass over all objects that it makes due would be counted
        as the program's own, and is many times a usual one.
        """
        if gc.isenabled():
            gc.collect()
        self._since_ns = time.perf_counter_ns()
        self._listen(True)

    def share(self) -> float | None:
        """The pauses' share of the time since `sum_up`; None before."""
        passed_ns = time.perf_counter_ns() - self._since_ns
        return self._sum_ns / passed_ns if self._since_ns and passed_ns else None

    def places(self) -> tuple[tuple[str, int, int], ...]:
        """File, line and ns, most first."""
        by_time = sorted(self._places_ns.items(), key=lambda item: -item[1])
        return tuple((*place, took_ns) for place, took_ns in by_time[:MOST_PLACES])

    def _listen(self, on: bool) -> None:
        if on and self._heard not in gc.callbacks:
            gc.callbacks.append(self._heard)
        elif not on and self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun_ns, self._clock_ns = time.time_ns(), time.perf_counter_ns()
            return
        took_ns = time.perf_counter_ns() - self._clock_ns if self._begun_ns else 0
        self._note_place(took_ns, sys._getframe().f_back)
        if not self._recording:
            self._sum_ns += took_ns
        elif took_ns and len(self.found_ns) < MOST:
            self.found_ns.append((self._begun_ns, took_ns, info.get("generation", -1)))

    def _note_place(self, took_ns: int, interrupted: FrameType | None) -> None:
        """`interrupted` is None for the collection when the interpreter ends."""
        if took_ns < TOLD_FROM_NS or interrupted is None:
            return
        place = own_place(interrupted)
        if place in self._places_ns or len(self._places_ns) < MOST:
            self._places_ns[place] = self._places_ns.get(place, 0) + took_ns
