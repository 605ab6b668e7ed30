"""The GPU only communicates, and computes nothing meanwhile.

What it finds
    Collectives between ranks (all-reduce, all-gather, reduce-scatter, all-to-all and their kin, by whatever library)
    during which no other kernel runs on the same device: 5 % of the judged window or more.

Why it costs
    Multiprocessors that wait for a network compute nothing. Gradients can travel while earlier layers are still being
    differentiated, and parameters while the layer before is computed; what is exposed is lost.

What to do
    Let DistributedDataParallel overlap: smaller buckets (`bucket_cap_mb`) start earlier, `gradient_as_bucket_view`
    saves copies; `no_sync()` while accumulating; FSDP's prefetching. Communicate half the bytes with a compression
    hook. Look for the rank that comes late.

When not to
    One rank's trace cannot tell the transfer from the wait for a slower rank: the time of a collective is transfer or
    waiting. Tensor-parallel layers need each result before the next kernel, so that only faster links or fewer, larger
    messages help. The first collectives of a run set up connections.

Source
    RULES.md, DST001. At stake is what other work of the window could cover: communication itself never gets shorter.
    Where the host holds up the GPU even more, hiding communication alone changes nothing: then no number is given, and
    the evidence says what it is worth once LCH001 is cured.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.collectives import collectives, other_kernels
from profiler_doctor.analyzer.measures.intervals import union, without
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_time, linked_work, window
from profiler_doctor.analyzer.model import HIDDEN_BELOW_SHARE, Where
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace

HOST_CAUSES = ("op_dispatch", "launch_latency", "python")
LATER = " The host is slower still: hiding it pays once the launches are cured."


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all collectives of the window."""
    span, table = window(trace), collectives(trace)
    table = table[table["row"].isin(linked_work(trace)["row"])]
    if span is None or not len(table):
        return
    exposed = {device: _exposed_ns(trace, int(str(device)), group) for device, group in table.groupby("device")}
    most = max(exposed.values())
    if most < limits["exposed_share"] * span.span_ns:
        return
    longest = table.nlargest(1, "exposed_ns").iloc[0]
    place = where_of(trace, int(longest["op"]))
    edit = Edit(aside=tuple(table["row"].tolist()))
    later = _share_once_launches_are_cured(trace, edit)
    yield Sighting(
        message=f"For {most / span.per / 1e6:.3g} ms per {span.unit} ({most / span.span_ns:.1%}) the GPU only "
        "communicates: transfer, or waiting for other ranks." + (LATER if later >= HIDDEN_BELOW_SHARE else ""),
        where=place if place.op else Where(op=str(longest["name"])),
        evidence={
            "collectives": len(table),
            "exposed_ns": most,
            "communication_ns": union(table["start_ns"].to_numpy(), table["end_ns"].to_numpy()).total_ns,
            "exposed_share": round(most / span.span_ns, 6),
            "share_once_launches_are_cured": round(later, 6),
            "kinds": table["kind"].value_counts().to_dict(),
            "bytes": int(table["bytes"].clip(lower=0).sum()),
        },
        intervals_ns=places(table.sort_values("exposed_ns", ascending=False)),
        edit=None if later >= HIDDEN_BELOW_SHARE else edit,
        basis="communication beside whatever else runs",
    )


def _share_once_launches_are_cured(trace: Trace, edit: Edit) -> float:
    """What the edit is worth in a step whose launches are no longer what is slow, where it is worth nothing before."""
    if linked_time(trace).share(*HOST_CAUSES) < HIDDEN_BELOW_SHARE:
        return 0.0
    alone = stake_of(trace, [edit]).share
    if alone is None or alone >= HIDDEN_BELOW_SHARE:
        return 0.0
    graph = Edit(no_launch_gaps=True)
    return (stake_of(trace, [graph, edit]).share or 0.0) - (stake_of(trace, [graph]).share or 0.0)


def _exposed_ns(trace: Trace, device: int, talks: pd.DataFrame) -> int:
    """The time of the collectives in which no other kernel runs on the device, each moment once."""
    return without(
        union(talks["start_ns"].to_numpy(), talks["end_ns"].to_numpy()), other_kernels(trace, device)
    ).total_ns


RULE = Rule(
    code="DST001",
    name="exposed-collective",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={"exposed_share": Threshold(0.05, "share of the window", "some exposure is normal (RULES.md)")},
)
