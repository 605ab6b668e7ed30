"""What every recorded step of a run did alike, in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counters of one step, as `check` counts them, of a program that we ran ourselves."""

    exact: Mapping[str, int | str]
    """Name → what it was in every step."""
    varying: tuple[str, ...] = ()
    """Those that were not the same in all of them, and so are no counters."""
    steps: int = 0
    """How many steps were counted."""
