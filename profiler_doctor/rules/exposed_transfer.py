"""The GPU waits for its input to arrive, although it could have been on its way earlier.

What it finds
    Copies from the host to the GPU during which no kernel runs, 2 % of the window or more, while the next kernel had
    been launched already: the device waited for the bytes and not for the host. Copies that follow a read-back in the
    same step are left out (they may depend on it), and so is an upload that happens only once.

Why it costs
    The copy engine and the multiprocessors can work at the same time. On one stream they take turns.

What to do
    Fetch one batch ahead: copy it from pinned memory on a side stream while the step before computes, let the compute
    stream wait for the copy's event, and call `record_stream` on the tensors.

When not to
    Input that depends on the last output (decoding, reinforcement learning) cannot be sent earlier. The first batch of
    an epoch always waits.

Source
    RULES.md, CPY002. At stake is the exclusive time of the copies, as if each had been issued a step earlier.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.measures.window import in_window, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Bools, Trace

NEVER = np.iinfo(np.int64).max


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all copies of the window."""
    span, moved = window(trace), copies(trace)
    if span is None:
        return
    moved = moved[in_window(trace, moved)]
    uploads = moved[(moved["direction"] == "HtoD") & (moved["exposed_ns"] > 0)]
    uploads = uploads[_held_up_a_kernel(trace, uploads)]
    uploads = uploads[~_after_a_read_back(uploads, moved[moved["direction"] == "DtoH"])]
    exposed, once = int(uploads["exposed_ns"].sum()), span.steps > 1 and uploads["step"].nunique() < 2
    if not len(uploads) or exposed < limits["exposed_share"] * span.span_ns or once:
        return
    longest = uploads.nlargest(1, "exposed_ns").iloc[0]
    place = where_of(trace, int(longest["op"]))
    yield Sighting(
        message=f"{len(uploads) / span.per:.3g} copies to the GPU per {span.unit} run with no kernel beside them while "
        f"the next kernel waits: {exposed / span.per / 1e6:.3g} ms.",
        where=place if place.op else Where(op=str(longest["name"])),
        evidence={
            "copies": len(uploads),
            "bytes": int(uploads["bytes"].clip(lower=0).sum()),
            "time_ns": int(uploads["dur_ns"].sum()),
            "exposed_ns": exposed,
            "exposed_share": round(exposed / span.span_ns, 6),
            "pageable": int(uploads["pageable"].sum()),
        },
        intervals_ns=places(uploads.sort_values("exposed_ns", ascending=False)),
        edit=Edit(aside=tuple(uploads["row"].tolist()), free=_waits(trace, uploads)),
        basis="each copy on a side stream, one step earlier",
    )


def _held_up_a_kernel(trace: Trace, uploads: pd.DataFrame) -> Bools:
    """Whether the next kernel on the device had been launched before the copy was over, and others ran before it."""
    work = gpu_work(trace)
    held = np.zeros(len(uploads), np.bool_)
    for device in uploads["device"].unique().tolist():
        kernels = work[(work["kind"] == "kernel") & (work["device"] == device)]
        mine = (uploads["device"] == device).to_numpy()
        start = uploads["start_ns"].to_numpy()[mine]
        place = np.searchsorted(kernels["start_ns"].to_numpy(), start, side="right")
        told = kernels["launch_start_ns"].where(kernels["launch"] >= 0, NEVER).to_numpy()
        launched = np.append(told, NEVER)[place]
        held[mine] = (place > 0) & (launched < uploads["end_ns"].to_numpy()[mine])
    return held


def _after_a_read_back(uploads: pd.DataFrame, reads: pd.DataFrame) -> Bools:
    """Whether results were copied to the host earlier in the copy's own step."""
    first = reads.groupby("step")["launch_start_ns"].min()
    after: Bools = (uploads["launch_start_ns"] > uploads["step"].map(first)).to_numpy(np.bool_)
    return after


def _waits(trace: Trace, uploads: pd.DataFrame) -> tuple[int, ...]:
    """The copy calls and the synchronizations inside their ops: a copy from pinned memory needs neither."""
    table = syncs(trace)
    same_op = (table["op"] >= 0) & table["op"].isin(uploads["op"])
    blocking = uploads.loc[uploads["launch"].isin(table["row"]) | uploads["pageable"], "launch"]
    return tuple(sorted({*blocking.tolist(), *table.loc[same_op, "row"].tolist()}))


RULE = Rule(
    code="CPY002",
    name="exposed-transfer",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={"exposed_share": Threshold(0.02, "share of the window", "a prefetcher costs effort too (RULES.md)")},
)
