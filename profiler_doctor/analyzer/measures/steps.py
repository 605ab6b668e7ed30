"""The steps of a trace, and which step an event belongs to."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.links import is_gpu_work, launch_of
from profiler_doctor.analyzer.trace import Ints, Trace, measure

STEP_MARK = re.compile(r"ProfilerStep#(\d+)$")
"""What torch.profiler and our own capture call a step."""


@measure
def steps(trace: Trace) -> pd.DataFrame:
    """The marked steps in time order.

    Columns: name, row (of the mark), thread (code), start_ns, end_ns, dur_ns, mark_end_ns. A step runs from its mark's
    start to the next mark's start, so that what happens between two marks belongs to the earlier one; the last runs
    to its mark's own end, which `mark_end_ns` gives for every step. Marks on other threads than the one with the most
    marks are ignored.
    """
    events = trace.events
    rows = step_marks(trace)
    rows = rows[_busiest(events.thread[rows])]
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    start, mark_end = events.start_ns[rows], events.ends_at(rows)
    end = np.append(start[1:], mark_end[-1:])
    return pd.DataFrame(
        {
            "name": events.names_at(rows),
            "row": rows,
            "thread": events.thread[rows].astype(np.int64),
            "start_ns": start,
            "end_ns": end,
            "dur_ns": end - start,
            "mark_end_ns": mark_end,
        }
    )


@measure
def step_marks(trace: Trace) -> Ints:
    """Rows of the marks of steps, in file order. PyTorch 1.8 wrote ops: those count for want of others."""
    annotations = trace.rows_named(STEP_MARK.match, ("user_annotation",))
    return annotations if len(annotations) else trace.rows_named(STEP_MARK.match, ("cpu_op",))


def step_of(trace: Trace, rows: npt.ArrayLike) -> Ints:
    """The index of the step in which each event starts, -1 outside all steps; GPU work counts where it was launched.

    GPU work whose launch is not in the trace belongs to no step.
    """
    wanted = np.asarray(rows, dtype=np.int64)
    launch = launch_of(trace).at(wanted, -1)
    times = trace.events.start_ns[np.where(launch >= 0, launch, wanted)]
    found = step_at(trace, times)
    return np.where(is_gpu_work(trace, wanted) & (launch < 0), -1, found)


def step_at(trace: Trace, times_ns: Ints) -> Ints:
    """The index of the step that runs at each time, -1 outside all steps."""
    table = steps(trace)
    if not len(table):
        return np.full(len(times_ns), -1)
    index = np.searchsorted(table["start_ns"].to_numpy(), times_ns, side="right") - 1
    inside = (index >= 0) & (times_ns < table["end_ns"].to_numpy()[index])
    return np.where(inside, index, -1)


def _busiest(threads: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    if not len(threads):
        return np.zeros(0, np.bool_)
    codes, counts = np.unique(threads, return_counts=True)
    chosen: npt.NDArray[np.bool_] = threads == codes[np.argmax(counts)]
    return chosen


STEPS = Table(name="steps", of=steps)
