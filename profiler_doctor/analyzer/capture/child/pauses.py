"""Pauses of Python's garbage collector while something is recorded."""

from __future__ import annotations

import gc
import time

MOST = 1000
"""Pauses kept; a program with more of them in a few steps is known well enough."""


class Pauses:
    """Listens to the collector between a recording's begin and its end."""

    def __init__(self) -> None:
        self.found_ns: list[tuple[int, int, int]] = []
        """Start (wall clock), duration, generation."""
        self._begun_ns = self._clock_ns = 0

    def recording(self, begins: bool) -> None:
        """A recording begins or ends."""
        if begins and self._heard not in gc.callbacks:
            gc.callbacks.append(self._heard)
        elif not begins and self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun_ns, self._clock_ns = time.time_ns(), time.perf_counter_ns()
        elif self._begun_ns and len(self.found_ns) < MOST:
            took_ns = time.perf_counter_ns() - self._clock_ns
            self.found_ns.append((self._begun_ns, took_ns, info.get("generation", -1)))
