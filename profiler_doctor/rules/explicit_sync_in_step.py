"""The program stops in the middle of a step until the GPU has caught up.

What it finds
    Device, stream or event synchronizations between the first and the last launch of a step that no op asked for: the
    `torch.cuda.synchronize()` left over from timing or debugging. Synchronizations at the edges of a step, under ops
    that copy or read values, and under collectives are not counted.

Why it costs
    While the host waits it launches nothing, so after the wait the GPU has nothing to do until the host has caught up.

What to do
    Delete it, or move it out of the step. To time parts of a step, record `torch.cuda.Event`s and read them afterwards.

When not to
    Where another library or process needs the results at this very point.

Source
    RULES.md, SYN002. The synchronizations of DistributedDataParallel and of the profiler itself look the same, and are
    told apart by where they stand.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.host import launching_threads
from profiler_doctor.analyzer.measures.ops import inside_named, named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Bools, Trace

NOT_EXPLICIT = named(r"^aten::", r"^c10d::", r"nccl|gloo|record_param_comms", "DistributedDataParallel", "DataLoader")
"""Ops and ranges under which a synchronization is the op's own."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: the explicit synchronizations of all steps."""
    span = window(trace)
    if span is None:
        return
    table = syncs(trace)
    table = table[(table["start_ns"] >= span.start_ns) & (table["start_ns"] < span.end_ns) & table["synchronize"]]
    table = table[~inside_named(trace, table["op"].to_numpy(np.int64), NOT_EXPLICIT)]
    table = table[_amid_launches(trace, table)]
    waited = int(table["dur_ns"].sum())
    if not len(table) or waited < limits["waited_share"] * span.span_ns:
        return
    longest = table.nlargest(1, "dur_ns").iloc[0]
    place = where_of(trace, int(longest["op"]))
    yield Sighting(
        message=f"{len(table) / span.per:.3g} explicit synchronizations per {span.unit} make the host wait for the "
        f"GPU, {waited / span.per / 1e6:.3g} ms in all.",
        where=place if place.op else Where(op=str(longest["name"])),
        evidence={"syncs": len(table), "waited_ns": waited, "calls": table["name"].value_counts().to_dict()},
        intervals_ns=places(table),
        edit=Edit(free=tuple(table["row"].tolist())),
        basis="the host not waiting",
    )


def _amid_launches(trace: Trace, table: pd.DataFrame) -> Bools:
    """Whether each call lies between the first and the last launch of its step, on a thread that launches."""
    launched = linked_work(trace)["launch_start_ns"]
    by_step = launched.groupby(step_at(trace, launched.to_numpy(np.int64)))
    first, last = by_step.min(), by_step.max()
    own = step_at(trace, table["start_ns"].to_numpy(np.int64))
    after = table["start_ns"].to_numpy() > first.reindex(own).to_numpy()
    before = table["start_ns"].to_numpy() < last.reindex(own).to_numpy()
    amid: Bools = after & before & table["thread"].isin(launching_threads(trace)).to_numpy()
    return amid


RULE = Rule(
    code="SYN002",
    name="explicit-sync-in-step",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={"waited_share": Threshold(0.005, "share of the window", "less is within the error of any estimate")},
)
