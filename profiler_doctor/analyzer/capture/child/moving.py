"""How far training moves a model's weights over a few steps: a fix that answers rightly may still train otherwise.

Each weight gives one number: its elements, or some thousands of them, in a weighted sum that tells them apart. Our own
process holds the moves of both sides against each other, and against how far untreated runs differ among themselves.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

MOST_WEIGHTS = 128
MOST_ELEMENTS = 4096
"""Of a weight: enough to see an update that is another, and a millisecond's work."""


class Moving:
    """The weights of the roots of one process, from when each is first seen on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._begun: list[tuple[Any, float]] = []

    def begin(self, module: Any) -> None:
        """Measure from here on."""
        known = {id(weight) for weight, _ in self._begun}
        trained = (weight for weight in module.parameters() if weight.requires_grad and id(weight) not in known)
        free = MOST_WEIGHTS - len(self._begun)
        self._begun += [(weight, self._number(weight)) for weight in islice(trained, free)]

    def moved(self) -> list[float]:
        """How far each weight has come, in the order in which they were first seen."""
        return [self._number(weight) - begun for weight, begun in self._begun]

    def _number(self, weight: Any) -> float:
        flat = weight.detach().reshape(-1)
        some = flat[:: max(1, -(-flat.numel() // MOST_ELEMENTS))].to("cpu", self._torch.float64)
        weighing = 1.0 + 0.5 * self._torch.cos(self._torch.arange(some.numel(), dtype=self._torch.float64))
        return float((some * weighing).sum())
