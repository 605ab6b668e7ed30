"""How much of the recorded time some ops take: of the step on a CPU, of the device's work on a GPU."""

from __future__ import annotations

import re
from statistics import median

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.measures.intervals import Intervals, shared, union
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import linked_work, used_steps, window
from profiler_doctor.analyzer.trace import Trace, measure

TRAINING = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$|^Optimizer\.step#")


def share(trace: Trace, op_rows: npt.ArrayLike) -> float:
    """The share of the judged window that the ops take, 0 … 1; whatever they call is theirs, and nothing counts twice.

    Where the window has linked GPU work it is the share of that work, by its time, that the ops launched; else the
    share of the window's own thread.
    """
    rows = np.asarray(op_rows, dtype=np.int64)
    work = linked_work(trace)
    return _of_work(trace, rows) if len(work) else _of_thread(trace, rows)


def host_share(trace: Trace, rows: npt.ArrayLike) -> float:
    """The share of the judged window's own thread that the rows cover, 0 … 1, whatever a device did meanwhile."""
    return _of_thread(trace, np.asarray(rows, dtype=np.int64))


def whole(trace: Trace) -> str:
    """What `share` is a share of, in words."""
    if len(linked_work(trace)):
        return "the GPU's work"
    span = window(trace)
    return f"the {span.unit}" if span is not None else "the recording"


def intervals_of(trace: Trace, rows: npt.ArrayLike) -> tuple[tuple[int, int], ...]:
    """Start and end of each row, for a finding's places to look at."""
    chosen = np.asarray(rows, dtype=np.int64)
    return tuple(zip(trace.events.start_ns[chosen].tolist(), trace.events.ends_at(chosen).tolist(), strict=True))


def judged_steps(trace: Trace) -> tuple[tuple[int, int], ...]:
    """Start and end of each judged step: the places to look at where a finding is of the whole step."""
    table = used_steps(trace)
    return tuple(zip(table["start_ns"].tolist(), table["end_ns"].tolist(), strict=True))


def rows_in_window(trace: Trace, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Those of the rows that start within the judged window."""
    chosen, span = np.asarray(rows, dtype=np.int64), window(trace)
    if span is None:
        return chosen[:0]
    start = trace.events.start_ns[chosen]
    return chosen[(start >= span.start_ns) & (start < span.end_ns)]


@measure
def trains(trace: Trace) -> bool:
    """Whether any backward pass or optimizer step was recorded, or seen by our own capture outside the recording."""
    facts = trace.facts
    if facts is not None and (facts.backward_calls or facts.optimizer_steps):
        return True
    return bool(len(trace.rows_named(TRAINING.search, ("cpu_op", "user_annotation"))))


@measure
def profiler_ns_per_op(trace: Trace) -> float:
    """What recording one op cost in this trace, in ns: what profiled steps took longer, spread over their ops.

    0 where our own capture did not time both.
    """
    facts, marks = trace.facts, steps(trace)
    if facts is None or not facts.step_ns or not facts.profiled_step_ns or not len(marks):
        return 0.0
    starts = trace.events.start_ns[trace.rows("cpu_op", "user_annotation")]
    inside = np.count_nonzero((starts >= marks["start_ns"].min()) & (starts < marks["end_ns"].max()))
    longer = median(facts.profiled_step_ns) - median(facts.step_ns)
    return max(longer, 0.0) * len(marks) / inside if inside else 0.0


def _of_work(trace: Trace, rows: npt.NDArray[np.int64]) -> float:
    work = linked_work(trace)
    mask = np.zeros(len(trace.events), np.bool_)
    mask[rows] = True
    theirs = outermost(trace, work["op"].to_numpy(np.int64), mask) >= 0
    total = int(work["dur_ns"].sum())
    return int(work["dur_ns"].to_numpy()[theirs].sum()) / total if total else 0.0


def _of_thread(trace: Trace, rows: npt.NDArray[np.int64]) -> float:
    span = window(trace)
    if span is None or not span.span_ns:
        return 0.0
    own = rows[trace.events.thread[rows] == span.thread]
    everything = Intervals(np.array([span.start_ns]), np.array([span.end_ns]), np.array([0]))
    return shared(everything, union(trace.events.start_ns[own], trace.events.ends_at(own))).total_ns / span.span_ns
