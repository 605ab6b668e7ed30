"""The step spends its time in Python, in no op at all.

What it finds
    Stretches of 0.3 ms and more in which the step's thread runs no op, calls no device, asks no data loader and is in
    no optimizer, and that come again at the same place in three of four steps. On a GPU only the part counts in which
    it idles. With Python stacks the function is named that is open there.

Why it costs
    While Python computes nothing else does: on a CPU the step waits for it, on a GPU the device runs dry. A call of a
    function takes a tenth of a microsecond, so a millisecond is a loop over thousands of things, a library beside
    torch, or waiting for a file, a lock or another program.

What to do
    Look at the function: do its work once before the loop, on whole tensors or arrays, or in another process. Inside a
    module's `forward`, `torch.compile` takes Python out of what it can trace.

When not to
    Where the program has to wait for the world, as with an environment that answers, only asking earlier can hide it.
    A debugger or another profiler makes Python slow: see ENV002 first.

Source
    RULES.md, PYB001; the host's share of idle time in Holistic Trace Analysis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.frames import place_in_source
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union
from profiler_doctor.analyzer.measures.python_gaps import Open, frame_in, python_gaps
from profiler_doctor.analyzer.measures.source import function_of, source_of
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.window import linked_idle, linked_time, linked_work, used_steps, window
from profiler_doctor.analyzer.measures.xla_programs import op_by_op
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

SHOWN = 3
"""Places that are named, the largest ones."""
BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<name>\w+)(?: of .*)?>$")
SHORT = r"the built-in \g<name>"
"""What it belongs to is an address, or the name of a type that nobody has written."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A finding for each place where the step is in Python, the largest ones, where all of them together matter."""
    if op_by_op(trace):  # JAX001 tells that, and what to do
        return
    gaps, whole_ns, unit = _recurring(trace, limits), _whole_ns(trace), _unit(trace)
    lost = gaps.groupby("place")["lost_ns"].sum().sort_values(ascending=False)
    if not whole_ns or lost.sum() < limits["share"] * whole_ns:
        return
    for place, lost_ns in lost.head(SHOWN).items():
        mine = gaps[gaps["place"] == place]
        longest = mine.iloc[int(mine["dur_ns"].to_numpy().argmax())]
        around = int(longest["before"]), int(longest["after"])
        there = frame_in(trace, *around) or Open("", "", ours=False)
        if lost_ns >= limits["each"] * whole_ns and not there.ours:
            yield _sighting(trace, mine, (lost_ns / whole_ns, unit), around, there)


def _sighting(
    trace: Trace, gaps: pd.DataFrame, share: tuple[float, str], around: tuple[int, int], there: Open
) -> Sighting:
    (part, unit), (own, innermost) = share, (there.own, there.innermost)
    framed = place_in_source(own)
    where_file, line = _line(trace, around, framed) or (None, None)
    names = [trace.events.name_of(row) if row >= 0 else "the step's edge" for row in around]
    named = own.replace(f"({framed[1]})", f"({line})") if framed and innermost in ("", own) else innermost
    doing = f", in {BUILT_IN.sub(SHORT, named)}" if named else ""
    return Sighting(
        message=f"{part:.0%} of the {unit} is spent in Python between {names[0]} and {names[1]}{doing}.",
        where=Where(file=where_file, line=line, op=names[1]),
        evidence={
            "share": part,
            "gaps": len(gaps),
            "median_ns": int(gaps["dur_ns"].median()),
            "frame": innermost,
            "own_frame": own,
        },
        intervals_ns=tuple(zip(gaps["start_ns"].tolist(), gaps["end_ns"].tolist(), strict=True)),
        edit=_edit(trace, gaps),
        basis="the Python in there gone",
    )


def _line(trace: Trace, around: tuple[int, int], own: tuple[str, int] | None) -> tuple[str, int] | None:
    """The line of the call before the gap, where the function that the gap is in makes it; else the function's own.

    A function that stood open when the recording began is told by the line on which it stood: the call after the gap
    is never above a function's first line, but may be above that.
    """
    before, after = (_called_in(trace, row, own) for row in around)
    return before or (min(own, after) if own and after else own)


def _called_in(trace: Trace, row: int, own: tuple[str, int] | None) -> tuple[str, int] | None:
    asked = np.array([row])
    return source_of(trace, asked)[0] if row >= 0 and own is not None and function_of(trace, asked)[0] == own else None


def _recurring(trace: Trace, limits: Limits) -> pd.DataFrame:
    """The gaps whose place, by the ops around them, comes again in enough steps; with column `lost_ns`."""
    gaps = python_gaps(trace)
    names = [np.append(trace.events.name, -1)[gaps[side].to_numpy(np.int64)] for side in ("before", "after")]
    gaps = gaps.assign(first=names[0], last=names[1], lost_ns=_lost(trace, gaps))
    gaps["place"] = gaps.groupby(["first", "last", "turn"] if len(steps(trace)) else ["first", "last"]).ngroup()
    by_place = gaps.groupby("place")["lost_ns"]
    kept = by_place.transform("size") >= max(limits["again"] * len(used_steps(trace)), 2)
    usual = gaps["place"].map({place: _usual_ns(trace, lost, limits) for place, lost in by_place})
    gaps["lost_ns"] = np.minimum(gaps["lost_ns"], usual.astype(np.int64))
    return gaps[kept]


def _usual_ns(trace: Trace, lost_ns: pd.Series[int], limits: Limits) -> float:
    """What a place takes at least in `again` of the steps, so that a program that takes the CPU away counts for none.

    Without steps the median: a step may come there more than once.
    """
    marks = len(used_steps(trace))
    if not marks or len(lost_ns) > marks:
        return float(lost_ns.median())
    in_every_step = np.sort(np.pad(lost_ns.to_numpy(), (marks - len(lost_ns), 0)))
    return float(in_every_step[round((1 - limits["again"]) * marks)])


def _lost(trace: Trace, gaps: pd.DataFrame) -> pd.Series[int]:
    """On a GPU the part of each gap in which it idles for Python, else all of it."""
    if not len(linked_work(trace)):
        return gaps["dur_ns"]
    idle = linked_idle(trace)
    idle = idle.loc[idle["cause"] == "python", ["start_ns", "end_ns"]]
    cover = union(idle["start_ns"].to_numpy(np.int64), idle["end_ns"].to_numpy(np.int64))
    parts = Intervals(gaps["start_ns"].to_numpy(np.int64), gaps["end_ns"].to_numpy(np.int64), np.arange(len(gaps)))
    return pd.Series(covered_ns(parts, cover, len(gaps)), index=gaps.index)


def _whole_ns(trace: Trace) -> int:
    """What the gaps are a share of: the device's span, else as many median steps as are judged, else the window."""
    span, marks = window(trace), used_steps(trace)
    if len(linked_work(trace)):
        return linked_time(trace).span_ns
    if len(marks):
        return int(marks["dur_ns"].median()) * len(marks)
    return span.span_ns if span is not None else 0


def _unit(trace: Trace) -> str:
    span = window(trace)
    return "GPU's time" if len(linked_work(trace)) else span.unit if span is not None else "step"


def _edit(trace: Trace, gaps: pd.DataFrame) -> Edit | None:
    """The steps shorter by their gaps; a trace has no event for a gap. None for a GPU: the replay cannot place them."""
    marks = steps(trace)
    if not len(marks) or len(linked_work(trace)):
        return None
    lost = gaps.groupby("step")["lost_ns"].sum()
    rows = marks["row"].to_numpy(np.int64)[lost.index.to_numpy()]
    took = np.maximum(trace.events.dur_ns[rows], 1)
    return Edit(keep=dict(zip(rows.tolist(), np.maximum(1 - lost.to_numpy() / took, 0.0).tolist(), strict=True)))


RULE = Rule(
    code="PYB001",
    name="python-gap",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "share": Threshold(0.10, "share of the step", "of a small model's step as much is the way from op to op"),
        "each": Threshold(0.03, "share of the step", "a place that takes less is not worth a finding of its own"),
        "again": Threshold(0.75, "share of the steps", "what happens once may be another program that took the CPU"),
    },
)
