"""What one observed run adds up to: the facts, written anew whenever they grew, so that a sudden end loses little."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from profiler_doctor.analyzer.capture.child.observed import Observed
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes
from profiler_doctor.analyzer.facts import Facts


@dataclass
class Account:
    """The times of the run's steps, kept apart by what was going on."""

    observed: Observed
    unprofiled: StepTimes = field(default_factory=StepTimes)
    profiled: StepTimes = field(default_factory=StepTimes)
    step_source: str = ""
    cold_step_ns: int | None = None
    warmup_steps: int = 0
    copy_bytes_per_s: float | None = None
    optimizer_steps: int = 0
    own_profiler: bool = False
    cut: list[str] = field(default_factory=list)

    def facts(self) -> Facts:
        """All of it, as rules read it."""
        return replace(
            self.observed.facts(),
            step_source=self.step_source,
            optimizer_steps=self.optimizer_steps,
            own_profiler=self.own_profiler,
            warmup_steps=self.warmup_steps,
            cold_step_ns=self.cold_step_ns,
            profiled_step_ns=tuple(self.profiled.wall_ns),
            step_ns=tuple(self.unprofiled.wall_ns),
            step_cpu_ns=tuple(self.unprofiled.cpu_ns),
            copy_bytes_per_s=self.copy_bytes_per_s,
            cut=tuple(self.cut),
        )

    def to_json(self) -> str:
        """`facts.json`."""
        return json.dumps(asdict(self.facts()))
