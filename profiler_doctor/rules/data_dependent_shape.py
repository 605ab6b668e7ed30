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
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import Window, window
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules._waits import by_place, waits


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that waits for a shape."""
    span = window(trace)
    if span is None:
        return
    table = waits(trace, span, "shape", limits["waited_share"])
    for group in by_place(trace, table, trace.events.names_at(table["under"].to_numpy(np.int64))):
        yield _sighting(trace, group, span)


def _sighting(trace: Trace, group: pd.DataFrame, span: Window) -> Sighting:
    where, waited = where_of(trace, int(group["under"].iloc[0])), int(group["dur_ns"].sum())
    count = group["under"].nunique()
    return Sighting(
        message=f"{count / span.per:.3g} calls of {where.op} per {span.unit} make the host wait for the size of their "
        f"result, {waited / span.per / 1e6:.3g} ms in all.",
        where=where,
        evidence={"calls": count, "waits": len(group), "waited_ns": waited, "steps": span.steps},
        intervals_ns=places(group),
        edit=Edit(free=tuple(group["row"].tolist())),
        basis="the host not waiting for shapes",
    )


RULE = Rule(
    code="SYN003",
    name="data-dependent-shape",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.KERNELS, Has.LAUNCHES),
    thresholds={"waited_share": Threshold(0.005, "share of the window", "less is within the error of any estimate")},
)
