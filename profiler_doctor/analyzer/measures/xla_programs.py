"""The compiled programs that a step of JAX starts, and the time in which XLA computes them on a CPU."""

from __future__ import annotations

import re

import numpy as np

from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.steps import step_at, steps
from profiler_doctor.analyzer.trace import Ints, Trace

STARTED = re.compile(r"\w*Executable::ExecuteHelper")
"""What XLA's profiler calls the start of a compiled program."""
COMPUTED = re.compile(r"ThunkExecutor::Execute")
"""... and the time in which the CPU computes one."""


def programs_a_step(trace: Trace) -> float:
    """Compiled programs that are started in a step, on average; 0.0 without steps."""
    count = len(steps(trace))
    return len(_within(trace, STARTED)) / count if count else 0.0


def computed_share(trace: Trace) -> float | None:
    """The share of the steps' time in which XLA computes, 0…1; None without steps."""
    total_ns = int(steps(trace)["dur_ns"].sum())
    rows = _within(trace, COMPUTED)
    spent_ns = int(union_ns(trace.events.start_ns[rows], np.asarray(trace.events.ends_at(rows))))
    return spent_ns / total_ns if total_ns else None


def _within(trace: Trace, name: re.Pattern[str]) -> Ints:
    rows = trace.rows_named(name.match, ("cpu_op",))
    return rows[step_at(trace, trace.events.start_ns[rows]) >= 0]
