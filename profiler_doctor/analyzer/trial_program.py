"""What all sides of a trial have in common: the program, and the pace at which they are treated and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Machine

SHORT_RUN_STEPS = 24
"""A script that makes fewer steps than this is not given the full warm-up."""
LONG_STEP_S = 0.25
"""A step that is a whole block by itself fills every cache: one is enough to be warm, and more would cost pairs."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """What all sides of all trials of one program have in common."""

    target: launch.Target
    folder: Path
    """Where logs and caches go; it exists."""
    source: StepSource
    machine: Machine
    usual_exit: int = 0
    """The exit status that the script ends with by itself."""
    known_steps: int = 0
    """How many steps the script makes by itself; 0: not known."""
    step_s: float = 0.0
    """How long an untreated step took when it was recorded; 0: not known."""
    silence_s: float | None = None
    """Longest time without a sign of progress (`--timeout`)."""
    budget_s: float = 120.0
    """What a treated program's silence is held against, where `--timeout` says nothing."""
    environment: Mapping[str, str] = field(default_factory=dict)
    fix_files: tuple[str, ...] = ()
    """The user's own files of fixes, absolute."""


@dataclass(frozen=True)
class Pace:
    """Counted in step boundaries from the script's start; the same for both sides."""

    treat_after: int
    ready_after: int
    compare_at: tuple[int, ...] = ()
    """Calls of a treated root, from 0, that are held against untreated copies."""
    moved_at: int = 5
    """The boundary at which each side tells how far its weights have come: the same in all sets of a trial."""

    @staticmethod
    def of(known_steps: int, compare: bool, step_s: float = 0.0) -> Pace:
        """A short script, or one of long steps, is treated at once, and compared at two of its calls, not three."""
        if step_s >= LONG_STEP_S and not compare:
            return Pace(1, 2, moved_at=2)
        if step_s >= LONG_STEP_S:
            return Pace(1, 3, (0, 1), moved_at=2)
        if 0 < known_steps < SHORT_RUN_STEPS:
            return Pace(1, 4, (0, 1), moved_at=3) if compare else Pace(1, 3, moved_at=3)
        return Pace(2, 8, (0, 1, 4)) if compare else Pace(2, 5)
