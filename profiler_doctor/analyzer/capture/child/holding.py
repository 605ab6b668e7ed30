"""Whether the fixes of one run took hold of anything, and how often what they treat was called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from profiler_doctor.analyzer.kinds import Fix


class Counted(Protocol):
    """One treated call."""

    calls: int


class Holding:
    """What the treatment of modules and that of a JAX script's function have in common."""

    fixes: tuple[Fix, ...]
    roots: Sequence[Counted]
    unsuitable: list[str]

    @property
    def took_hold(self) -> bool:
        """Whether the fixes change anything at all in this process so far."""
        whole = not any(fix.treat for fix in self.fixes)
        return whole or len(self.roots) > len(self.unsuitable)

    @property
    def calls(self) -> int:
        """Calls so far of all that is treated."""
        return sum(root.calls for root in self.roots)
