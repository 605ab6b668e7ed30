"""What a trial's blocks say beside its verdict: how single steps spread, memory, what a cold start costs, doubts."""

from __future__ import annotations

import math
import statistics as plain
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from profiler_doctor.analyzer.model import Change, StepSpread
from profiler_doctor.analyzer.trial_block import Block
from profiler_doctor.analyzer.trial_set import Pair

Side = Callable[[Pair], Block]

LEAST_STEPS = 20
"""Fewer single steps have no 95th percentile worth the name."""
CONTENDED_PER_S = 50.0
"""Interruptions a second from which on other programs had a part of the CPUs: the kernel takes the CPU away every 3 to
4 ms where two want it, and a few times a second where one does."""


def untreated(pair: Pair) -> Block:
    """The block of the side that is as the user wrote it."""
    return pair.baseline


def treated(pair: Pair) -> Block:
    """The block of the other side."""
    return pair.treated


def step_ns(pairs: Sequence[Pair], side: Side) -> int | None:
    """Median step time of a side on the wall clock, from whole blocks."""
    if not pairs:
        return None
    return round(plain.median(side(pair).wall_ns / side(pair).steps for pair in pairs))


def spread(pairs: Sequence[Pair], side: Side) -> StepSpread | None:
    """How the single steps of a side spread on the wall clock."""
    times = [time for pair in pairs for time in side(pair).step_ns]
    if len(times) < LEAST_STEPS:
        return None
    p50, p95, p99 = np.quantile(np.asarray(times), [0.5, 0.95, 0.99])
    return StepSpread(p50=round(p50), p95=round(p95), p99=round(p99), steps=len(times))


def peak_bytes(sets: Sequence[Sequence[Pair]], side: Side) -> int | None:
    """Most memory a side held, in the sets after the first: the first one's processes held copies to compare with."""
    return max((side(pair).peak_bytes for pairs in sets[1:] for pair in pairs), default=0) or None


def break_even(pairs: Sequence[Pair], cold_s: float | None) -> int | None:
    """Calls of the model after which the cold start is paid back; None: never, or there is none."""
    before, after = step_ns(pairs, untreated), step_ns(pairs, treated)
    if cold_s is None or before is None or after is None or before <= after:
        return None
    calls = sum(pair.treated.calls for pair in pairs) / sum(pair.treated.steps for pair in pairs)
    return math.ceil(cold_s * 1e9 / ((before - after) / calls)) if calls else None


def doubts(pairs: Sequence[Pair], changes: Sequence[Change]) -> Iterator[str]:
    """Sentences on what qualifies the numbers."""
    seconds = sum(pair.baseline.wall_ns + pair.treated.wall_ns for pair in pairs) / 1e9
    times = sum(pair.baseline.interruptions + pair.treated.interruptions for pair in pairs)
    if seconds and times / seconds > CONTENDED_PER_S:
        yield f"Other programs shared the CPUs: the steps were interrupted {times / seconds:.0f} times a second."
    for one, other in [(one, other) for one in changes[:1] for other in changes[1:]]:
        if one.low > other.high or one.high < other.low:
            yield (
                f"The clocks disagree: {one.ratio:.2f} times as fast by {one.clock} time, {other.ratio:.2f} by "
                f"{other.clock} time. Steps that wait for something, or share the CPUs, do that."
            )
