"""Many small copies go to the GPU one by one.

What it finds
    Eight or more copies from the host per step, each smaller than 64 KB, from one place in the program (its source
    line or module; without stacks the range around them). Where neither is known nothing is said.

Why it costs
    Every copy pays its own dispatch, its own call and about 10 µs on the way, for bytes that the link moves in one.
    From pageable memory the host also waits after each one.

What to do
    Pack the values into one pinned buffer, copy that, and take views of it on the GPU. Constants belong into buffers
    that are uploaded once.

When not to
    Where the host is far ahead of the GPU the copies cost nothing; the stake says so.

Source
    RULES.md, CPY003. At stake are all copies of a place but one per step, with the dispatch of their ops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.ops import outermost_named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import function_of, where_of
from profiler_doctor.analyzer.measures.window import Window, in_window, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

NO_PLACE = re.compile(r"ProfilerStep#|aten::")
"""Slices that every program has, and that tell no place in it."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that copies piecemeal."""
    span, moved = window(trace), copies(trace)
    if span is None:
        return
    moved = moved[in_window(trace, moved) & (moved["direction"] == "HtoD")]
    moved = moved[moved["bytes"].between(0, limits["small_bytes"] - 1)]
    if len(moved) < limits["copies"] * span.per:
        return
    for mine in _by_place(trace, moved):
        if len(mine) >= limits["copies"] * span.per:
            yield _sighting(trace, mine, span)


def _sighting(trace: Trace, mine: pd.DataFrame, span: Window) -> Sighting:
    place = where_of(trace, int(mine["op"].iloc[0]))
    size = int(mine["bytes"].sum())
    return Sighting(
        message=f"{len(mine) / span.per:.3g} small copies go to the GPU per {span.unit} from one place, "
        f"{size / span.per / 1e3:.3g} kB in all.",
        where=place if place.op else Where(op=str(mine["name"].iloc[0])),
        evidence={
            "copies": len(mine),
            "bytes": size,
            "time_ns": int(mine["dur_ns"].sum()),
            "pageable": int(mine["pageable"].sum()),
        },
        intervals_ns=places(mine),
        edit=Edit(keep=dict.fromkeys(mine.loc[mine["step"].duplicated(), "row"].tolist(), 0.0)),
        basis="one copy per step in place of all",
    )


def _by_place(trace: Trace, moved: pd.DataFrame) -> list[pd.DataFrame]:
    """The copies of each function and module; of each outermost range where the trace has no stacks."""
    rows = moved["op"].to_numpy(np.int64)
    around = outermost_named(trace, rows, lambda name: not NO_PLACE.match(name))
    ranges = [trace.events.name_of(row) if row >= 0 else "" for row in around.tolist()]
    told = zip(function_of(trace, rows), module_of(trace, rows), ranges, strict=True)
    names = [str((source, module)) if source or module else in_range for source, module, in_range in told]
    groups = [group for name, group in moved.groupby(np.array(names, dtype=object), sort=False) if name]
    return sorted(groups, key=len, reverse=True)


RULE = Rule(
    code="CPY003",
    name="many-small-copies",
    doc=__doc__,
    find=find,
    needs=(Has.LAUNCHES,),
    thresholds={
        "copies": Threshold(8, "copies per step and place", "a handful of inputs is no flood (RULES.md)"),
        "small_bytes": Threshold(65_536, "bytes", "below, a copy costs its latency and not its size"),
    },
)
