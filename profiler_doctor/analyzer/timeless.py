"""Which findings stand whatever the clock said: the rules are asked again of the same recording with its time warped.

A rule that judges by time can fire in one run and be silent in the next. A finding that is there when parts of the
recording take half or twice as long does not depend on time, so it can be counted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profiler_doctor.analyzer.engine import Selection, examine
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Ints, Trace

WARPS = 3
PIECES = 48
"""Pieces of the recording that are stretched or pressed, each by its own factor."""
SPREAD = 2.0
"""At most so many times as long or as short: more than a busy machine does to a step's parts."""


def findings(
    trace: Trace, rules: Found[Rule], selection: Selection | None = None
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Code → how many findings, small ones too, where all times agree; and code → the numbers where they do not."""
    asked = [_counts(trace, rules, selection)]
    asked += [_counts(warped(trace, seed), rules, selection) for seed in range(WARPS)]
    codes = sorted({code for counts in asked for code in counts})
    seen = {code: tuple(dict.fromkeys(counts.get(code, 0) for counts in asked)) for code in codes}
    steady = {code: counts[0] for code, counts in seen.items() if len(counts) == 1}
    return steady, {code: counts for code, counts in seen.items() if len(counts) > 1}


def warped(trace: Trace, seed: int) -> Trace:
    """The same events in the same order and nesting, on a clock that runs now faster and now slower."""
    events = trace.events
    timed = events.start_ns[events.dur_ns >= 0]
    if not len(timed):
        return trace
    knots = np.linspace(int(timed.min()), int(events.ends_at(np.flatnonzero(events.dur_ns >= 0)).max()) + 1, PIECES + 1)
    factors = SPREAD ** np.random.default_rng(seed).uniform(-1, 1, PIECES)
    at = np.concatenate(([0.0], np.cumsum(np.diff(knots) * factors)))

    def moved(times: Ints) -> Ints:
        later: Ints = (knots[0] + np.interp(times, knots, at)).astype(np.int64)
        return np.where(times < knots[0], times, later)

    start = moved(events.start_ns)
    dur = np.where(events.dur_ns >= 0, moved(events.end_ns) - start, events.dur_ns)
    return replace(trace, events=replace(events, start_ns=start, dur_ns=dur), cache={})


def _counts(trace: Trace, rules: Found[Rule], selection: Selection | None) -> dict[str, int]:
    outcomes = examine(trace, rules, selection).outcomes
    return {outcome.code: len(outcome.findings) for outcome in outcomes if outcome.findings}
