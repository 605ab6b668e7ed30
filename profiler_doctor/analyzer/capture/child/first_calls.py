"""The first calls of a treated root: how long the cold one takes, and whether the answers stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from profiler_doctor.analyzer.capture.child.compare import Comparison, Shadow
from profiler_doctor.analyzer.capture.child.shapes import Shapes


class FirstCalls:
    """The first calls of a treated root: how long the cold one takes, and whether the answers are the same.

    Where there is a shadow, calls with tensors of other shapes are compared as well.
    """

    def __init__(
        self, call: Callable[..., Any], shadow: Shadow | None, compare_at: frozenset[int], treating_s: float
    ) -> None:
        self.comparison: Comparison | None = None
        self._call = call
        self._shadow = shadow
        self._compare_at = compare_at if shadow is not None else frozenset()
        self.shapes = Shapes()
        self._left = max({1, *self._compare_at}) + 1
        self._treating_s = treating_s
        self._took_s: list[float] = []
        self._number = -1

    def call(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The next call, compared or only timed."""
        other_shapes = self.over or (self.compares and self.shapes.new(args, kwargs))  # afterwards they alone come here
        self._number += 1
        if self._number in self._compare_at or other_shapes:
            return self._compared(args, kwargs)
        return self._timed(*args, **kwargs)

    @property
    def compares(self) -> bool:
        """Whether calls of other shapes are to be compared still."""
        return self._shadow is not None and not self.shapes.enough

    @property
    def over(self) -> bool:
        """Whether nothing is left to be learnt from further calls."""
        return self._number + 1 >= self._left

    @property
    def cold_s(self) -> float:
        """Seconds that treating and the first treated call took beyond a later call."""
        return self._treating_s + max(0.0, self._took_s[0] - min(self._took_s)) if self._took_s else self._treating_s

    def _compared(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        assert self._shadow is not None
        before = self._shadow.applied() if self._number == 0 else Comparison(True)
        output, found = self._shadow.compared(self._timed, args, kwargs, thorough=self._number == 0)
        found = found.joined(before)
        self.comparison = found if self.comparison is None else self.comparison.joined(found)
        return output

    def _timed(self, *args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        output = self._call(*args, **kwargs)
        if not self.over:
            self._took_s.append(time.perf_counter() - begun)
        return output


def as_json(comparison: Comparison | None) -> dict[str, Any] | None:
    """The comparison as it is told to our process."""
    if comparison is None:
        return None
    if comparison.equal and comparison.inputs < 2:  # its own and another
        said = "only one set of input values could be compared"
        comparison = replace(comparison, equal=None, reasons=(*comparison.reasons, said))
    return dict(vars(comparison))
