"""Some GPU work has no launch in the trace, so nobody can say what caused it.

What it finds
    More than 1 % of the kernels, copies and memsets have no host call with their correlation: they were launched before
    the recording began, or the host's side was not recorded.

Why it costs
    It does not. But such work belongs to no op, module or step, and shares of causes leave it out.

What to do
    Synchronize before the recording begins, so that no earlier work runs into it, and record both sides (activities
    CPU and CUDA).

When not to
    The totals of busy and idle time hold all work, linked or not; they need no correction.

Source
    RULES.md, MSR002. A tenth of public traces are of this kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One note for the trace."""
    work = gpu_work(trace)
    unlinked = work[work["launch"] < 0]
    if not len(work) or len(unlinked) <= limits["share"] * len(work):
        return
    time, total = int(unlinked["dur_ns"].sum()), int(work["dur_ns"].sum())
    yield Sighting(
        message=f"{len(unlinked)} of {len(work)} pieces of GPU work ({time / 1e6:.3g} of {total / 1e6:.3g} ms) have no "
        "launch in the trace; they count as busy, and belong to no op or step.",
        evidence={"events": len(unlinked), "work": len(work), "time_ns": time},
        intervals_ns=places(unlinked),
    )


RULE = Rule(
    code="MSR002",
    name="unlinked-gpu-work",
    doc=__doc__,
    find=find,
    thresholds={"share": Threshold(0.01, "share of the pieces of GPU work", "a few at the edges are normal")},
)
