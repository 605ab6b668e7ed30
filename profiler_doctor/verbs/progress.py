"""What a waiting user sees on standard error: the phase, and how much of the budget is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


@dataclass
class Progress:
    """Says what is going on: a moving line on a terminal, a plain line a phase elsewhere, nothing when quiet."""

    budget_s: float
    quiet: bool = False
    status: Status | None = None
    began_s: float = field(default_factory=time.monotonic)
    last: str = ""

    def say(self, phase: str) -> None:
        """Name the phase that has begun. The same phase said twice in a row is shown once."""
        if self.quiet or phase == self.last:
            return
        self.last = phase
        left = max(0.0, self.budget_s - (time.monotonic() - self.began_s))
        if self.status is None:
            sys.stderr.write(f"[{left:3.0f} s left] {phase}\n")
            sys.stderr.flush()
        else:
            self.status.update(f"{phase} [dim]({left:.0f} s left)[/dim]")


@contextmanager
def progress(budget_s: float, quiet: bool) -> Iterator[Progress]:
    """A `Progress` for one run; the moving line is gone when it ends."""
    if quiet or not sys.stderr.isatty():
        yield Progress(budget_s, quiet)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield Progress(budget_s, quiet, status)
