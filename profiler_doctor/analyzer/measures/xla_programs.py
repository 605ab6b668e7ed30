"""The compiled programs that a step of JAX starts, the time in which XLA computes them on a CPU, and compiling them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.ops import ops, outermost_named
from profiler_doctor.analyzer.measures.steps import step_at, steps
from profiler_doctor.analyzer.trace import Ints, Trace, measure

STARTED = re.compile(r"\w*Executable::ExecuteHelper")
"""What XLA's profiler calls the start of a compiled program."""
COMPUTED = re.compile(r"ThunkExecutor::Execute")
"""... and the time in which the CPU computes one; of the smallest there is only the operation itself."""
PROGRAMS = 4
"""So many in a step, and its function is not compiled: a jitted step, its loss and a metric are three."""
OPERATION = "hlo_op"
"""The argument that XLA's own operations have."""

COMPILED = re.compile(r"backend_compile(_and_load)?$|lower_sharding_computation$")
"""What JAX calls its work on a program that is not there yet: writing it for XLA, and XLA's own."""
SHARED = "backend_compile"
"""Of these the one that dynamo gives a phase of its own, too."""
CALLED = re.compile(r"PjitFunction\((?P<name>.+)\)$")
"""What JAX calls the call of a compiled function; its own operations are such functions too."""


@measure
def by_jax(trace: Trace) -> bool:
    """Whether JAX or XLA made this trace, by its names."""
    return bool(trace.events.matching_names(_is_jaxs_own).any())


def _is_jaxs_own(name: str) -> bool:
    return bool(CALLED.match(name) or STARTED.match(name) or (COMPILED.match(name) and name != SHARED))


@measure
def compilations(trace: Trace) -> pd.DataFrame:
    """Each piece of work on a program that was not there yet, within a marked step, in time order.

    Columns: row, start_ns, end_ns, dur_ns, step (index), function (the outermost compiled function that was called:
    "predict"; "" none).
    """
    rows = trace.rows_named(COMPILED.match, ("cpu_op",) if by_jax(trace) else ())
    rows = np.unique(outermost_named(trace, rows, COMPILED.match))
    table = ops(trace)
    found = table[table["row"].isin(rows) & (table["step"] >= 0)].sort_values("start_ns", ignore_index=True)
    calls = outermost_named(trace, found["row"].to_numpy(np.int64), CALLED.match)
    names = ["" if row < 0 else CALLED.sub(r"\g<name>", trace.events.name_of(int(row))) for row in calls]
    return found[["row", "start_ns", "end_ns", "dur_ns", "step"]].assign(function=names)


def op_by_op(trace: Trace) -> bool:
    """Whether the steps are calls of a function that is not compiled, so that Python stands between its operations."""
    facts = trace.facts.jax if trace.facts is not None else None
    unjitted = facts is not None and bool(facts.function) and not facts.jitted
    return unjitted and programs_a_step(trace) >= PROGRAMS


def programs_a_step(trace: Trace) -> float:
    """Compiled programs that are started in a step, on average; 0.0 without steps."""
    count = len(steps(trace))
    return len(_within(trace, STARTED)) / count if count else 0.0


def computed_share(trace: Trace) -> float | None:
    """The share of the steps' time in which XLA computes, 0…1; None without steps."""
    total_ns = int(steps(trace)["dur_ns"].sum())
    operations = trace.rows("cpu_op")
    operations = operations[trace.events.text(OPERATION).at(operations, -1) >= 0]
    rows = np.union1d(_within(trace, COMPUTED), _in_steps(trace, operations))
    spent_ns = int(union_ns(trace.events.start_ns[rows], np.asarray(trace.events.ends_at(rows))))
    return spent_ns / total_ns if total_ns else None


def _within(trace: Trace, name: re.Pattern[str]) -> Ints:
    return _in_steps(trace, trace.rows_named(name.match, ("cpu_op",)))


def _in_steps(trace: Trace, rows: Ints) -> Ints:
    return rows[step_at(trace, trace.events.start_ns[rows]) >= 0]
