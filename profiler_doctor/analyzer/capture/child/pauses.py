"""Pauses of Python's garbage collector while something is recorded."""

from __future__ import annotations

import gc
import time

MOST = 1000
"""Pauses kept; a program with more of them in a few steps is known well enough."""


class Pauses:
    """Listens to the collector between a recording's begin and its end, and sums its pauses up in the time after."""

    def __init__(self) -> None:
        self.found_ns: list[tuple[int, int, int]] = []
        """Start (wall clock), duration, generation."""
        self._begun_ns = self._clock_ns = 0
        self._since_ns = self._sum_ns = 0
        self._recording = False

    def recording(self, begins: bool) -> None:
        """A recording begins or ends."""
        self._recording = begins
        self._listen(begins)

    def sum_up(self) -> None:
        """From now on only the sum counts."""
        self._since_ns = time.perf_counter_ns()
        self._listen(True)

    def share(self) -> float | None:
        """The pauses' share of the time since `sum_up`; None before."""
        passed_ns = time.perf_counter_ns() - self._since_ns
        return self._sum_ns / passed_ns if self._since_ns and passed_ns else None

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
        if not self._recording:
            self._sum_ns += took_ns
        elif took_ns and len(self.found_ns) < MOST:
            self.found_ns.append((self._begun_ns, took_ns, info.get("generation", -1)))
