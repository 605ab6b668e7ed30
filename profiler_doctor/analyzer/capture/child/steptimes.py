"""Times of steps, and the moment when they have become steady."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

STEADY_STEPS = 3
STEADY_WITHIN = 0.10
"""Three steps in a row within 10 % of their median, on the wall or the CPU clock: on a busy machine the wall clock
alone never settles."""


MOST = 400
"""Times kept; of more, every second one goes, so that they stay spread over the whole run."""


@dataclass
class StepTimes:
    """Wall and process CPU times of one kind of step, ns, and what of the wall time the program spent in data loaders
    (-1: not watched): of all steps, or of every so many-th where there are many."""

    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)
    loading_ns: list[int] = field(default_factory=list)
    _stride: int = 1
    _passed: int = 0

    def add(self, wall_ns: int, cpu_ns: int, loading_ns: int = -1) -> None:
        """One more step."""
        self._passed += 1
        if self._passed % self._stride:
            return
        self.wall_ns.append(wall_ns)
        self.cpu_ns.append(cpu_ns)
        self.loading_ns.append(loading_ns)
        if len(self.wall_ns) > MOST:
            self.wall_ns, self.cpu_ns = self.wall_ns[1::2], self.cpu_ns[1::2]
            self.loading_ns = self.loading_ns[1::2]
            self._stride *= 2

    def __len__(self) -> int:
        return len(self.wall_ns)

    def steady(self) -> bool:
        """Whether the last three steps agree."""
        return _agree(self.wall_ns[-STEADY_STEPS:]) or _agree(self.cpu_ns[-STEADY_STEPS:])

    def last(self, count: int) -> StepTimes:
        """The newest steps alone."""
        first = max(0, len(self.wall_ns) - max(0, count))
        return StepTimes(self.wall_ns[first:], self.cpu_ns[first:], self.loading_ns[first:])

    def and_then(self, later: StepTimes) -> StepTimes:
        """These steps and the later ones."""
        loading_ns = self.loading_ns + later.loading_ns
        return StepTimes(self.wall_ns + later.wall_ns, self.cpu_ns + later.cpu_ns, loading_ns)


class Stopwatch:
    """Runs from the end of one boundary to the beginning of the next."""

    def __init__(self) -> None:
        self._wall_ns = self._cpu_ns = -1

    def restart(self) -> None:
        """The step begins now."""
        self._cpu_ns = time.process_time_ns()
        self._wall_ns = time.perf_counter_ns()

    def read(self, now_ns: int) -> tuple[int, int] | None:
        """Wall and CPU time of the step that ended at `now_ns`; None before the first one."""
        if self._wall_ns < 0:
            return None
        return now_ns - self._wall_ns, time.process_time_ns() - self._cpu_ns


def _agree(times: Sequence[int]) -> bool:
    if len(times) < STEADY_STEPS:
        return False
    middle = sorted(times)[len(times) // 2]
    return all(abs(each - middle) <= STEADY_WITHIN * middle for each in times)
