"""An op has to know a number from the GPU before it knows how large its own result is.

What it finds
    Blocking calls under ops whose result's size depends on the data: `nonzero`, boolean indexing, `masked_select`,
    `unique`, `bincount`, `repeat_interleave` without `output_size`, and under `multinomial` and `randperm`, which check
    or sort on the way.

Why it costs
    The host must wait until the GPU has counted, to allocate the result. Until it goes on, nothing is queued behind,
    and the GPU stands still. Such a step cannot become a graph either.

What to do
    Keep shapes static: `torch.where(mask, x, 0)` instead of `x[mask]`, a multiplication by the mask,
    `repeat_interleave(..., output_size=n)`, `torch.nonzero_static(size=n)`, `bincount` only for the log.

When not to
    Where most elements fall away the smaller result may save more than the wait costs. Preparation outside of the hot
    step waits too, and does not matter.

Source
    RULES.md, SYN003; the ops that PyTorch's own documentation says synchronize.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import source_of, where_of
from profiler_doctor.analyzer.measures.wait_causes import wait_causes
from profiler_doctor.analyzer.measures.window import Window, window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that waits for a shape."""
    span = window(trace)
    if span is None:
        return
    table = wait_causes(trace)
    table = table[(table["start_ns"] >= span.start_ns) & (table["start_ns"] < span.end_ns)]
    table = table[table["cause"] == "shape"]
    if table["dur_ns"].sum() < limits["waited_share"] * span.span_ns:
        return
    for waits in _by_place(trace, table):
        yield _sighting(trace, waits, span)


def _sighting(trace: Trace, waits: pd.DataFrame, span: Window) -> Sighting:
    where, waited = where_of(trace, int(waits["under"].iloc[0])), int(waits["dur_ns"].sum())
    count = waits["under"].nunique()
    return Sighting(
        message=f"{count / span.per:.3g} calls of {where.op} per {span.unit} make the host wait for the size of their "
        f"result, {waited / span.per / 1e6:.3g} ms in all.",
        where=where,
        evidence={"calls": count, "waits": len(waits), "waited_ns": waited, "steps": span.steps},
        intervals_ns=places(waits),
        edit=Edit(free=tuple(waits["row"].tolist())),
        basis="the host not waiting for shapes",
    )


def _by_place(trace: Trace, table: pd.DataFrame) -> list[pd.DataFrame]:
    """The waits of each op, source line and module, most time first."""
    rows = table["under"].to_numpy(np.int64)
    told = zip(trace.events.names_at(rows), source_of(trace, rows), module_of(trace, rows), strict=True)
    groups = [group for _, group in table.groupby(np.array([str(place) for place in told], dtype=object), sort=False)]
    return sorted(groups, key=lambda group: -int(group["dur_ns"].sum()))


RULE = Rule(
    code="SYN003",
    name="data-dependent-shape",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.KERNELS, Has.LAUNCHES),
    thresholds={"waited_share": Threshold(0.005, "share of the window", "less is within the error of any estimate")},
)
