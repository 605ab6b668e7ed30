"""Python's garbage collector interrupts the steps.

What it finds
    Pauses of the cyclic garbage collector within the recorded steps, as our own capture hears them, or as events that
    torch's profiler records where it is told to (`record_python_gc_info`). On a GPU only the part counts in which it
    idles. The line is named under which most of the pauses' time went: a call of `gc.collect()`, or what makes objects.

Why it costs
    The collector stops everything to look for cycles. A full collection visits every object of the process, which a
    model, a tokenizer and a dataset make millions, and what starts it is the number of new objects, whatever is free.

What to do
    `gc.collect(); gc.freeze()` once after set-up takes all that is there out of later collections. `gc.disable()` in
    the loop, with `gc.collect(1)` every some hundred steps, leaves the moment to you. Making fewer objects in each step
    helps, too.

When not to
    Where cycles hold tensors, collecting late keeps their memory. Programs that call `gc.collect()` in each step
    themselves need only stop doing so. A recording of ours without steps holds the start of the program, whose imports
    make objects for good; it says nothing.

Source
    RULES.md, PYB002; the documentation of Python's gc module.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.intervals import Intervals, shared, union
from profiler_doctor.analyzer.measures.steps import step_at, steps
from profiler_doctor.analyzer.measures.window import linked_idle, linked_time, linked_work, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

EVENT = "Python GC"
"""What torch's profiler calls a collection."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all pauses of the window."""
    span, pauses = window(trace), _pauses(trace)
    if span is None or not len(pauses) or (trace.facts is not None and not len(steps(trace))):
        return
    on_gpu = bool(len(linked_work(trace)))
    lost_ns = shared(pauses, _idle(trace)).total_ns if on_gpu else pauses.total_ns
    part = lost_ns / (linked_time(trace).span_ns if on_gpu else span.span_ns)
    timed = trace.facts.pause_share if trace.facts else None
    part = part if timed is None else min(part, timed) if on_gpu else timed
    if part < limits["share"]:
        return
    longest = int((pauses.ends - pauses.starts).max())
    of = "GPU's time" if on_gpu else span.unit
    yield Sighting(
        message=f"Python's garbage collector stops the program {len(pauses) / span.per:.3g} times per {span.unit}, for "
        f"{part:.0%} of the {of}; the longest pause takes {longest / 1e6:.3g} ms.",
        where=_where(trace),
        evidence={"pauses": len(pauses), "share": part, "longest_ns": longest, "pause_ns": pauses.total_ns},
        intervals_ns=tuple(zip(pauses.starts.tolist(), pauses.ends.tolist(), strict=True)),
        edit=None if on_gpu else _edit(trace, pauses, timed),
        basis="no collection within the steps",
    )


def _where(trace: Trace) -> Where:
    """The line under which most of the time went, where one is: a call of `gc.collect()`, or what makes the objects."""
    known = trace.facts.pauses_at if trace.facts else ()
    total_ns = sum(took_ns for _, _, took_ns in known)
    file, line, most_ns = known[0] if known else ("", 0, 0)
    return Where(file=file, line=line, op=EVENT) if file and 2 * most_ns > total_ns else Where(op=EVENT)


def _pauses(trace: Trace) -> Intervals:
    """The pauses within the judged window: what our capture heard, else the profiler's own events."""
    span = window(trace)
    heard = trace.facts.pauses_ns if trace.facts else ()
    rows = trace.rows_named(EVENT.__eq__, ("python_function", "cpu_op", "user_annotation"))
    starts = (
        np.array([start - trace.base_ns for start, _, _ in heard], np.int64) if heard else trace.events.start_ns[rows]
    )
    ends = starts + np.array([took for _, took, _ in heard], np.int64) if heard else trace.events.ends_at(rows)
    if span is None:
        return union(starts[:0], ends[:0])
    inside = (starts >= span.start_ns) & (ends <= span.end_ns)
    return union(starts[inside], ends[inside])


def _idle(trace: Trace) -> Intervals:
    pieces = linked_idle(trace)
    return union(pieces["start_ns"].to_numpy(np.int64), pieces["end_ns"].to_numpy(np.int64))


def _edit(trace: Trace, pauses: Intervals, timed: float | None) -> Edit | None:
    """The steps shorter by their pauses, which are in no event of the step's own thread.

    Where all of many steps were timed, each is shortened by the share of those: a few recorded steps hold a full
    collection or none.
    """
    marks = steps(trace)
    if len(marks) and timed is not None:
        return Edit(keep=dict.fromkeys(marks["row"].tolist(), 1 - timed))
    step = step_at(trace, pauses.starts)
    if not len(marks) or not (step >= 0).any():
        return None
    lost: Ints = np.bincount(step[step >= 0], (pauses.ends - pauses.starts)[step >= 0], len(marks)).astype(np.int64)
    rows = marks["row"].to_numpy(np.int64)
    keep = np.maximum(1 - lost / np.maximum(trace.events.dur_ns[rows], 1), 0.0)
    return Edit(keep={row: share for row, share in zip(rows.tolist(), keep.tolist(), strict=True) if share < 1})


RULE = Rule(
    code="PYB002",
    name="gc-pause",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "share": Threshold(0.02, "share of the step", "young objects are looked through all the time, cheaply")
    },
)
