"""The counters of a run's own recording: what `check` would count, from the steps that happened to be recorded."""

from __future__ import annotations

from profiler_doctor.analyzer.capture.counted import LEAD_STEPS, LEAST_STEPS
from profiler_doctor.analyzer.counts import Counts
from profiler_doctor.analyzer.measures.memory import memory
from profiler_doctor.analyzer.measures.step_counts import step_counts, step_hashes
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.trace import Trace

MEMORY = ("allocations", "allocated_bytes", "kept_bytes", "peak_bytes")
"""Known only where the profiler was asked for memory."""


def counts(trace: Trace) -> Counts | None:
    """What each step did, the first one left out; None: too few steps, or a trace that somebody else recorded.

    Of such a trace neither the shapes nor the bounds of its steps are sure to be recorded as ours are.
    """
    if trace.facts is None or len(steps(trace)) < LEAST_STEPS or trace.events.text("Input Dims").table is None:
        return None
    table = step_counts(trace).join(step_hashes(trace)).iloc[LEAD_STEPS:]
    if memory(trace).empty:
        table = table.drop(columns=list(MEMORY))
    same = table.nunique() == 1
    first = {str(name): value for name, value in table.iloc[0].items()}
    return Counts(
        exact={name: value if isinstance(value, str) else int(value) for name, value in first.items() if same[name]},
        varying=tuple(str(name) for name in table.columns[~same]),
        steps=len(table),
    )
