"""A CPU program's step as one line of work: what is taken from it is what a cure could bring."""

from __future__ import annotations

import numpy as np

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.window import Window, used_steps, window
from profiler_doctor.analyzer.model import Stake
from profiler_doctor.analyzer.replay.edits import removed
from profiler_doctor.analyzer.replay.steptime import per_step
from profiler_doctor.analyzer.trace import Ints, Trace


def line_stake(trace: Trace, edit: Edit) -> Stake:
    """The time that `edit` takes from the step's own thread; work of other threads does not lengthen the step.

    Rows that overlap or nest are counted once, by the larger loss.
    """
    span = window(trace)
    if span is None or not span.span_ns:
        return Stake(basis="no estimate: nothing was recorded on the step's thread")
    host = dict(edit.keep) | dict.fromkeys(edit.free, 0.0)
    rows = np.fromiter(host, dtype=np.int64, count=len(host))
    keep = np.fromiter(host.values(), dtype=np.float64, count=len(host))
    mine, start, end = trace.events.thread[rows] == span.thread, trace.events.start_ns, trace.events.end_ns
    starts, ends = _stretches(trace, span)
    gone = int(removed(start[rows[mine]], end[rows[mine]], keep[mine]).between(starts, ends).sum())
    total = int((ends - starts).sum())
    basis = f"up to, from the recorded time of {span.words}"
    stake = Stake(ns_per_step=gone // span.per, share=gone / total, basis=basis)
    return per_step(trace, stake)


def _stretches(trace: Trace, span: Window) -> tuple[Ints, Ints]:
    used = used_steps(trace)
    if not len(used):
        return np.array([span.start_ns]), np.array([span.end_ns])
    return used["start_ns"].to_numpy(np.int64), used["end_ns"].to_numpy(np.int64)
