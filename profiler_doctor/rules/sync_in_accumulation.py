"""Gradients are averaged over all ranks after every micro-batch, although the optimizer waits for several.

What it finds
    Training with DistributedDataParallel or FullyShardedDataParallel in which the backward pass of a forward call
    starts all-reduces or reduce-scatters, and no optimizer step follows before the next forward call.

Why it costs
    Until the optimizer runs, gradients only have to be added up locally. Averaging them k times instead of once sends k
    times as many bytes.

What to do
    Run all micro-batches but the last under `with model.no_sync():`, forward and backward both.

When not to
    FSDP keeps unsharded gradients under `no_sync()`, which takes memory. Where communication hides entirely behind the
    backward pass there is nothing to win; the stake says so.

Source
    RULES.md, DST003; the documentation of `DistributedDataParallel.no_sync`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.collectives import collectives
from profiler_doctor.analyzer.measures.ops import SLICES, outermost_named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

FORWARD = re.compile(r"(DistributedDataParallel|FullyShardedDataParallel|FSDP)\.forward")
OPTIMIZER = re.compile(r"^Optimizer\.step#")
BACKWARD = re.compile(r"^autograd::engine::evaluate_function")
GRADIENTS = ("all_reduce", "reduce_scatter")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for the whole window."""
    span, forwards = window(trace), _outer_starts(trace, FORWARD)
    if span is None or len(forwards) < 2:
        return
    updates = _outer_starts(trace, OPTIMIZER)
    if not len(updates):
        return
    table = _gradients(trace)
    batch = np.searchsorted(forwards, table["launch_start_ns"].to_numpy(np.int64), side="right") - 1
    updated = np.diff(np.searchsorted(updates, np.append(forwards, np.iinfo(np.int64).max))) > 0
    followed = forwards < updates[-1]  # by an optimizer step sooner or later
    wasted = (batch >= 0) & ~updated[batch] & followed[batch]
    batches = len(np.unique(batch[wasted]))
    early = table[wasted]
    if batches < limits["batches"] or not len(early):
        return
    place = where_of(trace, int(early["op"].iloc[0]))
    yield Sighting(
        message=f"Gradients are averaged after {batches} micro-batches that no optimizer step follows: "
        f"{len(early) / span.per:.3g} collectives per {span.unit}, {early['dur_ns'].sum() / span.per / 1e6:.3g} ms.",
        where=place if place.op else Where(op=str(early["name"].iloc[0])),
        evidence={
            "micro_batches": len(forwards),
            "averaged_too_early": batches,
            "optimizer_steps": len(updates),
            "collectives": len(early),
            "time_ns": int(early["dur_ns"].sum()),
            "exposed_ns": int(early["exposed_ns"].sum()),
        },
        intervals_ns=places(early),
        edit=Edit(keep=dict.fromkeys(early["row"].tolist(), 0.0)),
        basis="one average per optimizer step",
    )


def _outer_starts(trace: Trace, names: re.Pattern[str]) -> Ints:
    """When the slices of that name start that lie in no other one of it; wrapped models may hold wrapped ones."""
    rows = trace.rows_named(names.search, SLICES)
    rows = rows[outermost_named(trace, rows, names.search) == rows]
    starts: Ints = np.sort(trace.events.start_ns[rows])
    return starts


def _gradients(trace: Trace) -> pd.DataFrame:
    """The collectives of the judged window that threads launch on which the backward pass runs."""
    table, work = collectives(trace), linked_work(trace)[["row", "launch", "launch_start_ns"]]
    table = table.merge(work[work["row"].isin(table["row"])], on="row", how="inner")
    backward = trace.events.thread[trace.rows_named(BACKWARD.search, SLICES)]
    launching = trace.events.thread[table["launch"].to_numpy(np.int64)]
    return table[table["kind"].isin(GRADIENTS).to_numpy() & np.isin(launching, np.unique(backward))]


RULE = Rule(
    code="DST003",
    name="sync-in-accumulation",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.KERNELS, Has.LAUNCHES),
    thresholds={"batches": Threshold(2, "micro-batches", "a single one may be a recording's edge")},
)
