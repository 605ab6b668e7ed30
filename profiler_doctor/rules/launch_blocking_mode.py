"""Every launch waits for its kernel: the program runs in a mode for debugging.

What it finds
    Half of the kernel launches or more are over only after their kernel: the launch call itself lasts as long
    (`CUDA_LAUNCH_BLOCKING`, `HIP_LAUNCH_BLOCKING`, `AMD_SERIALIZE_KERNEL`), or the same thread's next call waits for
    that very kernel. Kernels shorter than a launch tell nothing and are not asked.

Why it costs
    The host cannot prepare the next launch while the GPU works, and the GPU has nothing to do while the host prepares
    it: their times add up instead of overlapping.

What to do
    Unset the variable, and take synchronizations out of hooks and wrappers that run for every op. Errors can be found
    by a run of their own.

When not to
    Under compute-sanitizer, or while an asynchronous error is being hunted, the mode is on purpose.

Source
    RULES.md, SYN005; what the manuals of CUDA and HIP say of these variables.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

VARIABLES = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for the whole window."""
    launches = _launches(trace, limits["long_us"] * 1000)
    blocks = launches["end_ns"] >= launches["kernel_end_ns"]
    needed = limits["blocked_share"] * len(launches)
    if len(launches) < limits["launches"] or blocks.sum() + len(syncs(trace)) < needed:
        return
    waiting = _waited_for_at_once(trace, launches)
    both = blocks | (waiting >= 0)
    if not both.any() or both.sum() < needed:
        return
    rows = (*launches.loc[blocks, "row"].tolist(), *waiting[waiting >= 0].tolist())
    told = trace.facts.environment if trace.facts else {}
    yield Sighting(
        message=f"{both.mean():.0%} of {len(launches)} launches wait until their kernel has ended: host and GPU take "
        "turns.",
        where=where_of(trace, int(launches.loc[both, "op"].iloc[0])),
        evidence={
            "launches": len(launches),
            "blocked_share": round(float(both.mean()), 6),
            "by_the_launch_itself": int(blocks.sum()),
            "by_the_next_call": int((waiting >= 0).sum()),
            "environment": {name: told[name] for name in VARIABLES if name in told},
        },
        intervals_ns=places(launches[both]),
        edit=Edit(free=tuple(sorted(rows))),
        basis="no launch waiting for its kernel",
    )


def _launches(trace: Trace, long_ns: float) -> pd.DataFrame:
    """Calls that launch one kernel of at least `long_ns`: row, op, start_ns, end_ns, kernel (its row) and its end."""
    work = linked_work(trace)
    launch = work["launch"].to_numpy(np.int64)
    alone = np.bincount(launch, minlength=1)[launch] == 1 if len(work) else launch > 0
    chosen = alone & ((work["kind"] == "kernel") & (work["dur_ns"] >= long_ns)).to_numpy()
    kept = {"launch": "row", "op": "op", "launch_start_ns": "start_ns", "row": "kernel", "end_ns": "kernel_end_ns"}
    table = work.loc[chosen, list(kept)].rename(columns=kept).reset_index(drop=True)
    return table.assign(end_ns=trace.events.ends_at(table["row"].to_numpy(np.int64)))


def _waited_for_at_once(trace: Trace, launches: pd.DataFrame) -> pd.Series[int]:
    """For each launch the row of the next call of its thread, where that waited for the launched kernel; else -1."""
    calls, waits = host_calls(trace), syncs(trace)
    known = np.flatnonzero((calls["kind"] != "other") | (calls["work"] > 0))
    known = known[np.argsort(calls["thread"].to_numpy()[known], kind="stable")]  # each thread's stay in order of time
    rows = calls["row"].to_numpy()[known]
    after = launches["row"].map(pd.Series(np.append(rows[1:], -1), index=rows))
    waited = after.map(waits.set_index("row")["waited_for"])
    return after.where(waited == launches["kernel"], -1).astype("int64")


RULE = Rule(
    code="SYN005",
    name="launch-blocking-mode",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES),
    thresholds={
        "blocked_share": Threshold(0.5, "share of launches", "a program with a few waits is no mode (RULES.md)"),
        "long_us": Threshold(5, "µs", "a kernel shorter than a launch call may be over before the call is"),
        "launches": Threshold(10, "launches of long kernels", "fewer are a fragment, no mode"),
    },
)
