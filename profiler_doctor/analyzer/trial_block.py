"""What a side of a trial tells: the steps of one turn, and how its treated roots answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """Some steps made in one turn."""

    steps: int
    wall_ns: int
    cpu_ns: int
    step_ns: tuple[int, ...] = ()
    calls: int = 0
    """Calls of root modules."""
    clean: bool = True
    """Nothing but the program's own work was in it."""
    stale: bool = False
    """Weights have changed that the treatment had frozen."""
    peak_bytes: int = 0
    """Most memory held so far: on a GPU what torch had allocated there, else the process's resident memory."""
    interruptions: int = 0
    """How often the kernel took the CPU away from the process while it wanted to go on."""


@dataclass(frozen=True)
class Treated:
    """What the child told about one root; the untreated side's is held against its own copies likewise."""

    cold_s: float
    equal: bool | None
    error: float
    tolerance: float
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What the fix itself has to say of what it did."""
