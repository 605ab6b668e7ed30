"""Put the one document together: what was recorded, what the rules said, what the trials showed, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.excerpts import with_excerpts
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.measures.lanes import timeline
from profiler_doctor.analyzer.measures.totals import tables, totals
from profiler_doctor.analyzer.model import Capture, Diagnosis, HealthNote, RuleOutcome, Trial
from profiler_doctor.analyzer.repeated import counts
from profiler_doctor.analyzer.totals import StepTime, Totals
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.analyzer.verdict import verdict

TOP_ROWS = 100
"""Rows of each table in the document: nearly all ops of most programs, so that `compare` can line two documents up.
`profiler-doctor table` prints all."""
MOST_TIMED = 400
"""Step times in the document: enough to see how they are spread."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is diagnosed and how it was asked for."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, object] = field(default_factory=dict)
    capture: Capture | None = None
    health: tuple[HealthNote, ...] = ()
    """Notes that the capture itself has to make."""
    top: int = TOP_ROWS


def diagnosis(subject: Subject, trace: Trace, examination: Examination, trials: tuple[Trial, ...] = ()) -> Diagnosis:
    """The document of one examined trace and the trials that followed. Exit code 0: asking for more is the verb's."""
    whole = measured(totals(trace), trace.facts)
    return Diagnosis(
        subject=subject.name,
        command=subject.command,
        environment=subject.environment,
        health=(*subject.health, *examination.health),
        totals=whole,
        tables=tables(trace, subject.top),
        outcomes=_outcomes(examination, trace.facts),
        joint_stake=examination.joint,
        trials=trials,
        verdict=verdict(whole, examination, trials),
        capture=subject.capture,
        timeline=timeline(trace),
        counters=counts(trace),
    )


def measured(recorded: Totals, facts: Facts | None) -> Totals:
    """The totals with the step's time as measured without the profiler, where that was done."""
    if facts is None or not facts.step_ns:
        return recorded
    return replace(recorded, step_ns=step_time(facts.step_ns), timed_step_ns=_spread_evenly(facts.step_ns))


def _spread_evenly(step_ns: tuple[int, ...]) -> tuple[int, ...]:
    """At most MOST_TIMED of them, the first and the last among them."""
    chosen = np.linspace(0, len(step_ns) - 1, min(len(step_ns), MOST_TIMED)).astype(np.int64)
    return tuple(step_ns[place] for place in chosen.tolist())


def _outcomes(examination: Examination, facts: Facts | None) -> tuple[RuleOutcome, ...]:
    """With the lines of the program, where we ran it; of a trace from elsewhere the files here may be others."""
    if facts is None or not facts.source_folder:
        return examination.outcomes
    return with_excerpts(examination.outcomes, Path(facts.source_folder))


def step_time(step_ns: tuple[int, ...]) -> StepTime:
    """Median and quartiles of un-profiled steps, each an observed value (no interpolation: nothing is rounded)."""
    low, median, high = (int(value) for value in np.percentile(step_ns, (25, 50, 75), method="nearest"))
    count = "1 step" if len(step_ns) == 1 else f"{len(step_ns)} steps"
    return StepTime(median=median, low=low, high=high, basis=f"{count} timed without the profiler")
