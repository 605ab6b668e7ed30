"""The profiler itself takes part of the recorded time.

What it finds
    A recorded step more than 1.1 times as long as the un-profiled one; or the profiler's own work (buffer requests,
    lazy loading of kernels it instruments, flushing) over 1 % of the recorded time; or more than 50 Python frames for
    each op.

Why it costs
    It costs only while profiling. But it slows the host and not the GPU, so launch gaps look longer than they are.

What to do
    Read shares, not times, from such a recording; take stacks and shapes in a pass of their own; trust un-profiled
    timings for the step.

When not to
    Stakes that we give are scaled to the un-profiled step where we timed one.

Source
    RULES.md, MSR005. On small CPU models recording makes a step 1.3 to 1.45 times as long, with stacks 3 times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from profiler_doctor.analyzer.kinds import Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.trace import GPU_WORK, HOST_CALLS, Trace

RECORDED = ("overhead", "cpu_op", "user_annotation", *HOST_CALLS, *GPU_WORK)


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A note for each sign."""
    yield from _slower_steps(trace, limits["step_ratio"])
    yield from _own_work(trace, limits["overhead_share"])
    yield from _frames(trace, limits["frames_per_op"])


def _slower_steps(trace: Trace, limit: float) -> Iterator[Sighting]:
    facts = trace.facts
    if facts is None or not facts.step_ns or not facts.profiled_step_ns:
        return
    ratio = median(facts.profiled_step_ns) / median(facts.step_ns)
    if ratio > limit:
        yield Sighting(
            message=f"Recording made the step {ratio:.3g} times as long; step times are un-profiled ones.",
            evidence={"step_ratio": round(ratio, 4)},
            grave=False,
        )


def _own_work(trace: Trace, limit: float) -> Iterator[Sighting]:
    rows = trace.rows("overhead")
    if not len(rows):
        return
    start, ends_at = trace.events.start_ns, trace.events.ends_at
    kinds = [of for of in (trace.rows(kind) for kind in RECORDED) if len(of)]
    span = max(int(ends_at(of).max()) for of in kinds) - min(int(start[of].min()) for of in kinds)
    taken = union_ns(start[rows], ends_at(rows))
    if taken > limit * span:
        names = sorted(set(trace.events.names_at(rows)))
        yield Sighting(
            message=f"The profiler's own work takes {taken / span:.1%} of the recorded time ({', '.join(names)}).",
            evidence={"events": len(rows), "overhead_ns": taken, "overhead_share": round(taken / span, 6)},
            grave=False,
        )


def _frames(trace: Trace, limit: float) -> Iterator[Sighting]:
    frames, ops = len(trace.rows("python_function")), len(trace.rows("cpu_op"))
    if ops and frames > limit * ops:
        yield Sighting(
            message=f"The trace holds {frames / ops:.0f} Python frames for each op, which slowed the host down.",
            evidence={"events": frames, "frames_per_op": round(frames / ops, 2)},
            grave=False,
        )


RULE = Rule(
    code="MSR005",
    name="profiler-distortion",
    doc=__doc__,
    find=find,
    thresholds={
        "step_ratio": Threshold(1.1, "times the un-profiled step", "less is within the steps' own variation"),
        "overhead_share": Threshold(0.01, "share of the recorded time", "what a finding has to reach to matter"),
        "frames_per_op": Threshold(50, "Python frames per op", "a frame costs about as much as an op's own record"),
    },
)
