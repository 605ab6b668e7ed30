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
    For small samples in memory workers cost more than they bring, as each batch has to be sent between processes: try
    it. The first batch after the workers' start is left out here.

Source
    RULES.md, DAT001; Lightning-AI/pytorch-lightning#17410 and huggingface/datasets#6279 for both sides of the advice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.ops import ops, outermost_named
from profiler_doctor.analyzer.measures.share import intervals_of, profiler_ns_per_op, rows_in_window, share
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.totals import step_time
from profiler_doctor.analyzer.measures.window import linked_idle, linked_time, linked_work, used_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Ints, Trace

START_UP = 10
"""A fetch that takes so many times the median one waits for workers to start (RULES.md, DAT003)."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: of exposed device time where a device worked, else of the step's wall time."""
    fetches = rows_in_window(trace, np.unique(outermost_named(trace, _all(trace), LOADER.search)))
    usual = _usual(trace, fetches)
    if not len(usual):
        return
    on_gpu = bool(len(linked_work(trace)))
    part = linked_time(trace).share("dataloader") if on_gpu else _share_of_step(trace, usual)
    if part < limits["gpu_share" if on_gpu else "step_share"]:
        return
    single = "SingleProcess" in trace.events.name_of(int(usual[0]))
    how = "in the program's own process" if single else "from its worker processes"
    waits = "The GPU idles" if on_gpu else "The step waits"
    of = "of its time" if on_gpu else "of its wall time"
    yield Sighting(
        message=f"{waits} {part:.0%} {of} for the data loader, which fetches batches {how}.",
        where=_where(trace, int(usual[np.argmax(trace.events.dur_ns[usual])])),
        evidence={
            "share": part,
            "fetches": len(fetches),
            "median_fetch_ns": int(np.median(trace.events.dur_ns[usual])),
            "start_ups_left_out": len(fetches) - len(usual),
            "single_process": single,
        },
        intervals_ns=_exposed(trace) if on_gpu else intervals_of(trace, usual),
        edit=Edit(keep=dict.fromkeys(usual.tolist(), 0.0 if on_gpu else _kept(trace, usual, part))),
        basis="every batch ready in time",
    )


def _all(trace: Trace) -> Ints:
    return trace.rows_named(LOADER.search, ("user_annotation", "cpu_op"))


def _usual(trace: Trace, fetches: Ints) -> Ints:
    """The fetches without those that wait for workers to start."""
    if not len(fetches):
        return fetches
    took = trace.events.dur_ns[fetches]
    return fetches[took < START_UP * np.median(took)]


def _share_of_step(trace: Trace, fetches: Ints) -> float:
    """The middle step's share, un-profiled as far as is known: recording an op is not the loader's fault."""
    marks, step = used_steps(trace), step_time(trace).median
    if not len(marks) or not step:
        return 0.0
    table = ops(trace).set_index("row").loc[fetches]
    recorded = profiler_ns_per_op(trace)
    small = np.array([_ops_inside(trace, start, end) for start, end in intervals_of(trace, fetches)])
    own = pd.Series(np.maximum(table["dur_ns"].to_numpy() - recorded * small, 0), index=table["step"].to_numpy())
    per_step = own.groupby(level=0).sum().reindex(marks.index, fill_value=0.0)
    whole = np.full(len(marks), step) if recorded else marks["dur_ns"].to_numpy()
    return float(np.median(per_step.to_numpy() / whole))


def _kept(trace: Trace, fetches: Ints, part: float) -> float:
    """The share of the recorded fetches that is the recording's own, so that no more than `part` is at stake."""
    recorded = share(trace, fetches)
    return max(1 - part / recorded, 0.0) if recorded else 0.0


def _where(trace: Trace, fetch: int) -> Where:
    """The fetch, with the line that its longest op was called from: the dataset's where that is the user's own."""
    table = ops(trace)
    inside = table[(table["parent"] == fetch) & table["is_op"]]
    longest = int(inside["row"].to_numpy()[inside["dur_ns"].to_numpy().argmax()]) if len(inside) else -1
    return replace(where_of(trace, longest), op=trace.events.name_of(fetch))


def _ops_inside(trace: Trace, start_ns: int, end_ns: int) -> int:
    starts = ops(trace)["start_ns"].to_numpy()
    return int(np.count_nonzero((starts > start_ns) & (starts < end_ns)))


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
