"""Whether a difference in time is real, told from two programs that took turns.

The unit of a set is one pair of processes: two processes that run the very same code still differ by about 1 %, and
more samples from them do not remove that. So the interval comes from a bootstrap over the sets first and over the
blocks inside them second, a verdict asks that every set points the same way, and nothing within 2 % counts.

A trial may look at its data early (`LOOKS`). Each look has its own small share of the 1 % that the whole trial may err
by, so however the number of pairs came about, the sum of all ways to be wrong stays below 1 % (union bound).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiler_doctor.analyzer.model import Change, Clock

Floats = NDArray[np.float64]
Direction = Literal["faster", "slower", "same", "inconclusive"]
Move = Literal["next pair", "next set", "end"]

MARGIN = 0.02
"""A gain within 2 % is no gain: identical code in two processes differs by 0.4–0.95 % (standard deviation, measured on
a quiet and on a loaded machine), so three sets would agree on 1 % by chance."""
SETS = 3
"""Fresh pairs of processes that a verdict needs."""
LOOKS = {10: 0.001, 20: 0.002, 40: 0.003, 80: 0.004}
"""Pairs of blocks per set at which a trial may be judged → the error allowed there, both sides together. They add up to
1 %. The first is far stricter: a bootstrap of a median promises too much at small numbers."""
SHARES = {3: 0.5, 4: 0.2, 5: 0.2, 6: 0.1}
"""Sets after which a trial may be judged → the share of the look's error spent there. Where three sets disagree, more
sets tell, and more pairs do not."""
RESAMPLES = 4000
LEAST_PAIRS = 5
"""Fewer pairs in a set give no interval worth the name."""
GIVE_UP_PAIRS = 20
"""A first set of ten pairs on a noisy machine is too little to give a fix up for."""
POWER_Z = 0.84
"""Standard normal quantile of 80 %, the power at which a detectable effect is stated."""
PROCESS_SD = 0.0095
"""What two processes of identical code differ by beyond sampling, as a log ratio, on a loaded machine."""


@dataclass(frozen=True)
class Interval:
    """A log ratio (baseline over treated; above 0: faster) with its interval at the level of the look."""

    estimate: float
    low: float
    high: float
    alpha: float

    @property
    def half_below(self) -> float:
        """From the lower end to the estimate."""
        return self.estimate - self.low


def log_ratios(baseline_ns: Sequence[int], treated_ns: Sequence[int]) -> Floats:
    """Paired blocks as log(baseline / treated), unitless; blocks in which a clock did not move are left out."""
    before, after = np.asarray(baseline_ns, dtype=np.float64), np.asarray(treated_ns, dtype=np.float64)
    if before.shape != after.shape:
        raise ValueError(f"{before.size} baseline blocks cannot be paired with {after.size} treated ones")
    moved = (before > 0) & (after > 0)
    ratios: Floats = np.log(before[moved]) - np.log(after[moved])
    return ratios


def allowed_error(pairs: int, sets: int) -> float:
    """The error a look at `sets` sets of `pairs` pairs may make: that of the largest look reached, or of the first."""
    reached = [alpha for look, alpha in LOOKS.items() if look <= pairs]
    share = SHARES[min(max(sets, SETS), max(SHARES))]
    return (reached[-1] if reached else min(LOOKS.values())) * share


def interval(sets: Sequence[Floats], seed: int = 0) -> Interval:
    """The mean of the sets' medians, with a percentile interval from resampling sets and then blocks.

    Blocks are drawn in short runs (circular block bootstrap, about n^⅓ long), because neighbours in time are alike.
    With fewer sets than `SETS` the interval is widened by what two processes of the same code differ by.

    Raises:
        ValueError: a set holds fewer than `LEAST_PAIRS` pairs, or there is no set.
    """
    if not sets or min(one.size for one in sets) < LEAST_PAIRS:
        raise ValueError(f"an interval needs at least {LEAST_PAIRS} pairs in every set")
    found = _bounds(sets, seed)
    if len(sets) >= SETS:
        return found
    extra = _normal_quantile(0.995) * PROCESS_SD / math.sqrt(len(sets))
    low = found.estimate - math.hypot(found.half_below, extra)
    high = found.estimate + math.hypot(found.high - found.estimate, extra)
    return Interval(found.estimate, low, high, found.alpha)


def judge(sets: Sequence[Floats], seed: int = 0) -> Direction:
    """`faster` or `slower` only past the margin, by at least three sets that all point that way; else how it stands."""
    return _direction(sets, interval(sets, seed))


def change(clock: Clock, sets: Sequence[Floats], seed: int = 0) -> Change:
    """The judgement as it stands in the document; ratios say how many times faster the treated program is."""
    found = interval(sets, seed)
    ratio, low, high = (math.exp(value) for value in (found.estimate, found.low, found.high))
    pairs = sum(one.size for one in sets)
    return Change(clock=clock, ratio=ratio, low=low, high=high, pairs=pairs, verdict=_direction(sets, found))


def detectable(sets: Sequence[Floats], seed: int = 0) -> float:
    """The smallest true gain (0.05: 5 %) that this much data, this noisy, verifies four times in five."""
    found = interval(sets, seed)
    spread = found.half_below / _normal_quantile(1 - found.alpha / 2)
    return math.expm1(math.log1p(MARGIN) + found.half_below + POWER_Z * spread)


def next_move(done: Sequence[Floats], now: Floats, most: int, most_sets: int = SETS, seed: int = 0) -> Move:
    """What a trial does next, given its finished sets, the set at hand, and the most pairs and sets it has time for.

    The first set alone decides how many pairs the sets of this trial have (one of `LOOKS`, or `most`); the later ones
    have the same number. A verdict is asked for after the third set and after each set from there on, until there is
    one. So the error of each look is spent once.
    """
    sets, at_look = [*done, now], now.size in LOOKS
    if at_look and hopeless(sets, seed):
        return "end"
    if not done and at_look and settled(now, seed):
        return "next set"
    if now.size < (done[0].size if done else most):
        return "next pair"
    if len(sets) < SETS:
        return "next set"
    return "next set" if len(sets) < min(most_sets, max(SHARES)) and judge(sets, seed) == "inconclusive" else "end"


def settled(pairs: Floats, seed: int = 0) -> bool:
    """Whether more pairs in the first set would not help: its gain is clear, or it is sharper than processes differ.

    "Clear" keeps half an interval in hand, because the sets to come will differ from this one.
    """
    found = interval([pairs], seed)
    sampled = _bounds([pairs], seed)
    sharp = sampled.high - sampled.low < PROCESS_SD
    return sharp or found.low > math.log1p(MARGIN) + found.half_below / 2


def hopeless(sets: Sequence[Floats], seed: int = 0) -> bool:
    """Whether no verdict `faster` can come any more: the whole interval lies below the margin.

    Ending a trial for this reason can only ever withhold a verdict, so it costs no error of the other kind. One set
    alone must have `GIVE_UP_PAIRS` for it.
    """
    return sum(one.size for one in sets) >= GIVE_UP_PAIRS and interval(sets, seed).high < math.log1p(MARGIN)


def opposed(deciding: Change, other: Change) -> bool:
    """Whether two clocks contradict each other: one surely above 1, the other surely below."""
    return (deciding.low > 1 and other.high < 1) or (deciding.high < 1 and other.low > 1)


def _direction(sets: Sequence[Floats], found: Interval) -> Direction:
    margin, medians = math.log1p(MARGIN), [float(np.median(one)) for one in sets]
    if len(sets) >= SETS and found.low > margin and min(medians) > 0:
        return "faster"
    # fewer sets than a verdict needs must clear the margin by as much more
    if found.high < -margin * max(1.0, SETS / len(sets)) and max(medians) < 0:
        return "slower"
    return "same" if -margin < found.low and found.high < margin else "inconclusive"


def _bounds(sets: Sequence[Floats], seed: int) -> Interval:
    """The estimate with the bootstrap's own interval."""
    alpha = allowed_error(min(one.size for one in sets), len(sets))
    low, high = np.quantile(_resampled(sets, np.random.default_rng(seed)), [alpha / 2, 1 - alpha / 2])
    estimate = float(np.mean([np.median(one) for one in sets]))
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), alpha)


def _resampled(sets: Sequence[Floats], rng: np.random.Generator) -> Floats:
    """`RESAMPLES` means of the medians of as many sets as there are, each set and its blocks drawn anew."""
    chosen = rng.integers(len(sets), size=(RESAMPLES, len(sets)))
    medians = np.empty(chosen.shape)
    for number, pairs in enumerate(sets):
        places = chosen == number
        medians[places] = _resampled_medians(pairs, int(places.sum()), rng)
    means: Floats = medians.mean(axis=1)
    return means


def _resampled_medians(pairs: Floats, count: int, rng: np.random.Generator) -> Floats:
    """`count` medians of the set, its blocks drawn in circular runs."""
    size = pairs.size
    run = max(1, round(size ** (1 / 3)))
    starts = rng.integers(size, size=(count, -(-size // run), 1), dtype=np.int32)
    index = ((starts + np.arange(run, dtype=np.int32)) % size).reshape(count, -1)[:, :size]
    medians: Floats = np.median(pairs[index], axis=1)
    return medians


def _normal_quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)
