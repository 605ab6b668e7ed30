"""Two profilers cannot run at once: when the script starts its own, ours steps aside.

Without this, torch would silently give the script our session and us nothing. Watched is the one place in
`torch.autograd.profiler` that all ways to profile pass through: `torch.profiler.profile`, `autograd.profiler.profile`,
`emit_nvtx`, `emit_itt`. Two profilers one after the other are not safe either while a range is open that the first
one saw begin: torch then writes the range's end into memory that the first has given back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced


class Arbiter:
    """Knows whose profiler is on, and whether another may start."""

    def __init__(self, step_aside: Callable[[], None]) -> None:
        self.theirs = False
        """The script's own profiler is on now."""
        self.seen_theirs = False
        """The script has used a profiler of its own."""
        self.recording = False
        """Ours is on now."""
        self._changing = False
        self._open: set[int] = set()
        self._step_aside = step_aside

    def install(self, torch: Any) -> tuple[Undo, ...]:
        """Watch torch's profiler; returns what stops that."""
        module = torch.autograd.profiler
        starts = [name for name in ("_prepare_profiler", "_enable_profiler") if hasattr(module, name)]
        return (
            *(replaced(module, name, self._starting) for name in starts),
            replaced(module, "_disable_profiler", self._stopping),
        )

    def follow_ranges(self, torch: Any) -> tuple[Undo, ...]:
        """Watch the script's `record_function` ranges for as long as we may still record; returns what stops that."""
        ranges = torch.autograd.profiler.record_function
        return replaced(ranges, "__enter__", self._opening), replaced(ranges, "__exit__", self._closing)

    def free(self) -> bool:
        """Whether ours may start: no profiler is on, and no range is open that one saw begin."""
        return not (self.theirs or self.recording or self._open)

    def opened(self, range_: object) -> None:
        """A range begins; it matters if a profiler sees it."""
        if self.recording or self.theirs:
            self._open.add(id(range_))

    def closed(self, range_: object) -> None:
        """The range ends."""
        self._open.discard(id(range_))

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What happens to the profiler in here is our doing."""
        self._changing = True
        try:
            yield
        finally:
            self._changing = False

    def _starting(self, start: Callable[..., Any]) -> Callable[..., Any]:
        def started(*args: Any, **more: Any) -> Any:
            if not self._changing:
                self.seen_theirs = True
                if not self.theirs:
                    self._step_aside()
                self.theirs = True
            return start(*args, **more)

        return started

    def _stopping(self, stop: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*args: Any, **more: Any) -> Any:
            if not self._changing:
                self.theirs = False
            return stop(*args, **more)

        return stopped

    def _opening(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        def entered(range_: Any) -> Any:
            self.opened(range_)
            return enter(range_)

        return entered

    def _closing(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        def left(range_: Any, *error: Any) -> Any:
            self.closed(range_)
            return leave(range_, *error)

        return left
