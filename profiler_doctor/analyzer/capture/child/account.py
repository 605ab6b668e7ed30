"""What one observed run adds up to: the facts, written anew whenever they grew, so that a sudden end loses little."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field, replace

from profiler_doctor.analyzer.capture.child.compiling import Compiling
from profiler_doctor.analyzer.capture.child.observed import Observed
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes
from profiler_doctor.analyzer.facts import Facts, MaskFacts


@dataclass
class Account:
    """The times of the run's steps, kept apart by what was going on."""

    observed: Observed
    compiling: Compiling
    unprofiled: StepTimes = field(default_factory=StepTimes)
    profiled: StepTimes = field(default_factory=StepTimes)
    step_source: str = ""
    cold_step_ns: int | None = None
    warmup_steps: int = 0
    copy_bytes_per_s: float | None = None
    function_ns: dict[str, float] = field(default_factory=dict)
    masks: tuple[MaskFacts, ...] = ()
    shared_inputs: tuple[tuple[int, ...], ...] = ()
    optimizer_steps: int = 0
    steps_made: int = 0
    own_profiler: bool = False
    cut: list[str] = field(default_factory=list)
    source_folder: str = field(default_factory=lambda: os.path.realpath(sys.path[0]) if sys.path else "")

    def facts(self) -> Facts:
        """All of it, as rules read it."""
        return replace(
            self.observed.facts(),
            step_source=self.step_source,
            optimizer_steps=self.optimizer_steps,
            steps_made=self.steps_made,
            own_profiler=self.own_profiler,
            warmup_steps=self.warmup_steps,
            cold_step_ns=self.cold_step_ns,
            profiled_step_ns=tuple(self.profiled.wall_ns),
            step_ns=tuple(self.unprofiled.wall_ns),
            step_cpu_ns=tuple(self.unprofiled.cpu_ns),
            step_loading_ns=() if -1 in self.unprofiled.loading_ns else tuple(self.unprofiled.loading_ns),
            copy_bytes_per_s=self.copy_bytes_per_s,
            function_ns=self.function_ns,
            masks=self.masks,
            shared_inputs=self.shared_inputs,
            cut=tuple(self.cut),
            compiles=self.compiling.facts(),
            source_folder=self.source_folder,
        )

    def to_json(self) -> str:
        """`facts.json`."""
        return json.dumps(asdict(self.facts()))
