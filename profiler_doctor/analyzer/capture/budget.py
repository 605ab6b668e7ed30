"""The time we were given, shared by the phases: what one leaves over, the later ones have."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

WEIGHTS = {"observe": 1.5, "stacks": 0.5, "trials": 8.0}
"""In the order in which they run. A trial needs two programs and three pairs of them, the others one."""


@dataclass(frozen=True)
class Budget:
    """`total_s` seconds from `begun_s` (`time.monotonic()`) for all phases of one diagnosis. Pure: `now_s` is given."""

    total_s: float
    begun_s: float
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)

    @staticmethod
    def start(total_s: float, *, verify: bool = True) -> Budget:
        """A budget that begins now; without trials their share goes to the rest."""
        weights = WEIGHTS if verify else {name: weight for name, weight in WEIGHTS.items() if name != "trials"}
        return Budget(total_s, time.monotonic(), weights)

    @property
    def end_s(self) -> float:
        """When everything should be over."""
        return self.begun_s + self.total_s

    def left_s(self, now_s: float) -> float:
        """What is left for everything that is still to come, never negative."""
        return max(0.0, self.end_s - now_s)

    def allowance_s(self, phase: str, now_s: float) -> float:
        """The share of a phase that begins now: what is left, by weight among it and the phases after it."""
        names = list(self.weights)
        coming = names[names.index(phase) :]
        return self.left_s(now_s) * self.weights[phase] / sum(self.weights[name] for name in coming)
