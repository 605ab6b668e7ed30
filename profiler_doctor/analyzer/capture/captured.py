"""What goes into a recording, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.model import Capture


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to record."""

    budget: Budget
    steps: int = 5
    step_name: str | None = None
    """`--step`: the range that marks a step."""
    timeout_s: float | None = None
    """`--timeout`: end a script that shows no progress for so long."""
    output_to_stderr: bool = False
    """The script's standard output goes to standard error, ours holds the document alone."""
    stacks: bool = True
    progress: Callable[[str, float], None] = lambda phase, left_s: None  # noqa: ARG005
    """Told each phase as it begins, and the seconds left of the budget."""


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What recording gave. The folder is kept; the trace is missing where the script's own profiler kept ours out."""

    folder: Path
    target: Target
    trace_file: Path | None
    stacks_file: Path | None
    facts: Facts
    environment: Mapping[str, object]
    source: StepSource | None
    """For later runs of the same program; None: no steps."""
    known_steps: int
    """How many steps the program makes by itself; 0: not known, it was ended before."""
    script_exit: int | None
    """Its own exit status, negative for a signal; None: we ended it."""
    recorded_steps: int

    @property
    def overhead(self) -> float | None:
        """Profiled over un-profiled step time, medians; None where one was not measured."""
        profiled, plain = _median(self.facts.profiled_step_ns), _median(self.facts.step_ns)
        return profiled / plain if profiled and plain else None

    def summary(self) -> Capture:
        """As it stands in the document."""
        facts = self.facts
        return Capture(
            folder=str(self.folder),
            script_exit=self.script_exit,
            step_source=facts.step_source,
            roots={root.name: root.calls for root in facts.roots},
            warmup_steps=facts.warmup_steps,
            recorded_steps=self.recorded_steps,
            timed_steps=len(facts.step_ns),
            profiler_overhead=self.overhead,
            cold_step_ns=facts.cold_step_ns,
            cut=facts.cut,
        )


def _median(times: tuple[int, ...]) -> float | None:
    ordered = sorted(times)
    middle = len(ordered) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
