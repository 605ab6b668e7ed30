"""Tell, mark by mark, where a known step begins."""

from __future__ import annotations

from profiler_doctor.analyzer.capture.child.discovery import shorten
from profiler_doctor.analyzer.capture.plan import StepSource


class Follower:
    """Keeps its place in the pattern of a step. A mark that does not fit loses the place until a step begins anew."""

    def __init__(self, source: StepSource) -> None:
        self.pattern = source.pattern
        self.detail = source.detail
        self.misfits = 0
        self._next = 0

    def starts_step(self, token: str) -> bool:
        """Whether this mark is the first of a step."""
        if not self.pattern:
            return True
        token = shorten(token, self.detail)
        if token == self.pattern[self._next]:
            first = self._next == 0
            self._next = (self._next + 1) % len(self.pattern)
            return first
        self.misfits += 1
        first = token == self.pattern[0]
        self._next = 1 % len(self.pattern) if first else 0
        return first
