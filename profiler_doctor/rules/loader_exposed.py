"""The step waits for its next batch.

What it finds
    On a CPU: the share of the step's wall time inside the data loader's `__next__`, in the middle one of the recorded
    steps, less what recording the loader's many small ops cost. On a GPU: the time that the device idles while the
    program is in there; loading that is hidden behind GPU work costs nothing and is not counted.

Why it costs
    With `num_workers=0` fetching and collating happen between two steps and in line with them. With workers the step
    still waits where they cannot keep up.

What to do
    More workers (`num_workers`, `persistent_workers=True`), or cheaper samples: data in memory are best fetched a
    batch at a time (`sampler=BatchSampler(...)`, `batch_size=None`), not one sample after the other.

When not to
    For small samples in memory workers cost more than they bring, as each batch has to be sent between processes:
    where rows of tensors are merely picked, DAT002 speaks in this rule's place. The first batch after the workers'
    start is left out here.

Source
    RULES.md, DAT001; Lightning-AI/pytorch-lightning#17410 and huggingface/datasets#6279 for both sides of the advice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.fetches import fetches, stays
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.picking import picking
from profiler_doctor.analyzer.measures.share import intervals_of
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_idle
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: of exposed device time where a device worked, else of the step's wall time."""
    found = fetches(trace)
    usual, on_gpu = found.usual, found.of == "device"
    least = limits["gpu_share" if on_gpu else "step_share"]
    if not len(usual) or found.of == "recorded window" or found.share < least or picking(trace) is not None:
        return
    how = "in the program's own process" if found.single_process else "from its worker processes"
    waits = "The GPU idles" if on_gpu else "The step waits"
    of = "of its time" if on_gpu else "of its wall time"
    yield Sighting(
        message=f"{waits} {found.share:.0%} {of} for the data loader, which fetches batches {how}.",
        where=_where(trace, int(usual[np.argmax(trace.events.dur_ns[usual])])),
        evidence={
            "share": found.share,
            "fetches": len(found.rows),
            "median_fetch_ns": int(np.median(trace.events.dur_ns[usual])),
            "start_ups_left_out": len(found.rows) - len(usual),
            "single_process": found.single_process,
        },
        intervals_ns=_exposed(trace) if on_gpu else intervals_of(trace, usual),
        edit=Edit(keep=dict.fromkeys(usual.tolist(), 0.0) if on_gpu else stays(trace, usual, found.share)),
        basis="every batch ready in time",
    )


def _where(trace: Trace, fetch: int) -> Where:
    """The fetch, with the line that its longest op was called from: the dataset's where that is the user's own."""
    table = ops(trace)
    inside = table[(table["parent"] == fetch) & table["is_op"]]
    longest = int(inside["row"].to_numpy()[inside["dur_ns"].to_numpy().argmax()]) if len(inside) else -1
    return replace(where_of(trace, longest), op=trace.events.name_of(fetch))


def _exposed(trace: Trace) -> tuple[tuple[int, int], ...]:
    pieces = linked_idle(trace)
    pieces = pieces[pieces["cause"] == "dataloader"].nlargest(200, "dur_ns")
    return tuple(zip(pieces["start_ns"].tolist(), pieces["end_ns"].tolist(), strict=True))


RULE = Rule(
    code="DAT001",
    name="loader-exposed",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "step_share": Threshold(0.10, "share of the step", "below, handing batches between processes costs as much"),
        "gpu_share": Threshold(0.03, "share of the GPU's time", "from there on a finding is of medium severity"),
    },
)
