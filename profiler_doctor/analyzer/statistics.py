"""Whether a difference in time is real, told from two programs that took turns.

The unit is a set: one pair of processes. Two processes that run the very same code still differ, by 1 % on a quiet
machine and by 4–9 % on a busy one, and more samples from them do not remove that. So an interval must cover two doubts:
a bootstrap over the sets first and over the blocks inside them second, and Student's t over the sets' medians, which
widens where sets disagree. A verdict asks that every set shows the gain, and nothing within 2 % counts.

A trial may look at its data early (`LOOKS`, `SHARES`). Each look has its own small share of the 1 % that the whole
trial may err by, so that however the amount of data came about, the sum of all ways to be wrong stays below 1 %.
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
BETWEEN_ERROR = 0.05
"""What Student's interval over the sets may err by in a whole trial, both sides together. It is a second guard beside
the 99 % bootstrap: at 1 % it needs ten times the gain that three or four sets scatter by, and verified nothing."""
EARLY_GAIN = 0.10
"""Three sets verify a gain of 10.5 % (log ratio 0.10) or more; a smaller one needs a fourth. Where processes of the
same code differ by several percent, three of them agree on a few percent by chance more often than four do."""
PROCESS_SD = 0.0095
"""What two processes of identical code differ by beyond sampling, as a log ratio, before a machine's own sets have
shown better or worse. Measured: 0.004 on a quiet machine, 0.0095 on a loaded one."""
PRIOR_SETS = 1
"""How many sets' worth of evidence that is."""
NO_GAIN_ERROR = 0.05
"""How often a gain of just the margin is given up for none. That withholds a verdict and gives no false one, so it need
not be as rare as a false gain must be."""


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
    """The mean of the sets' medians, with an interval for what blocks and what processes differ by.

    Raises:
        ValueError: a set holds fewer than `LEAST_PAIRS` pairs, or there is no set.
    """
    found = resampled(sets, seed)
    share = SHARES[min(max(len(sets), SETS), max(SHARES))]
    half = _between_sets([median(one) for one in sets], BETWEEN_ERROR * share) if len(sets) >= SETS else 0.0
    low, high = min(found.low, found.estimate - half), max(found.high, found.estimate + half)
    return Interval(found.estimate, low, high, found.alpha)


def resampled(sets: Sequence[Floats], seed: int = 0) -> Interval:
    """The percentile interval of the mean of the sets' medians, from resampling sets and then blocks.

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
    smallest = math.log1p(MARGIN) + found.half_below + POWER_Z * spread
    return math.expm1(max(smallest, EARLY_GAIN) if len(sets) <= SETS else smallest)


def next_move(done: Sequence[Floats], now: Floats, most: int, most_sets: int = SETS, seed: int = 0) -> Move:
    """What a trial does next, given its finished sets, the set at hand, and the most pairs and sets it has time for.

    The first set alone decides how many pairs the sets of this trial have (one of `LOOKS`, or `most`); the later ones
    have the same number. A verdict is asked for after the third set and after each set from there on, until there is
    one, or until there is not even a gain to be doubted, which two sets can show. So the error of each look is spent
    once.
    """
    sets, at_look = [*done, now], now.size in LOOKS
    if at_look and hopeless(sets, seed):
        return "end"
    if not done and at_look and settled(now, seed):
        return "next set"
    if now.size < (done[0].size if done else most):
        return "next pair"
    if no_gain(sets, seed):
        return "end"
    if len(sets) < SETS:
        return "next set"
    found = interval(sets, seed)
    open_still = _direction(sets, found) == "inconclusive" and found.estimate > math.log1p(MARGIN)
    return "next set" if open_still and len(sets) < min(most_sets, max(SHARES)) else "end"


def settled(pairs: Floats, seed: int = 0) -> bool:
    """Whether more pairs in the first set would not help: its gain is clear, or it is sharper than processes differ.

    "Clear" keeps half an interval in hand, because the sets to come will differ from this one.
    """
    found, sampled = interval([pairs], seed), _bounds([pairs], seed)
    error = (sampled.high - sampled.low) / 2 / _normal_quantile(1 - sampled.alpha / 2)
    return error < PROCESS_SD or found.low > math.log1p(MARGIN) + found.half_below / 2


def hopeless(sets: Sequence[Floats], seed: int = 0) -> bool:
    """Whether a trial may end because no verdict `faster` is to be expected from it.

    That can only ever withhold a verdict, so it costs no error of the other kind. One set alone must show a loss, and
    have `GIVE_UP_PAIRS`; several need only show that there is no gain.
    """
    if sum(one.size for one in sets) < GIVE_UP_PAIRS:
        return False
    return resampled(sets, seed).high < (math.log1p(MARGIN) if len(sets) > 1 else -math.log1p(MARGIN))


def no_gain(sets: Sequence[Floats], seed: int = 0) -> bool:
    """Whether two sets or more rule out a gain beyond the margin.

    One set never does: processes of the same code differ by more than the gains that are given up here.
    """
    if len(sets) < 2 or min(one.size for one in sets) < LEAST_PAIRS:
        return False
    medians = [median(one) for one in sets]
    sampled = float(np.quantile(_resampled(sets, np.random.default_rng(seed)), 1 - NO_GAIN_ERROR))
    return max(sampled, float(np.mean(medians)) + _between_sets(medians, 2 * NO_GAIN_ERROR)) < math.log1p(MARGIN)


def median(ratios: Floats) -> float:
    """The set's own estimate, a log ratio."""
    return float(np.median(ratios))


def opposed(deciding: Change, other: Change) -> bool:
    """Whether two clocks contradict each other: one surely above 1, the other surely below."""
    return (deciding.low > 1 and other.high < 1) or (deciding.high < 1 and other.low > 1)


def _direction(sets: Sequence[Floats], found: Interval) -> Direction:
    margin, medians = math.log1p(MARGIN), [median(one) for one in sets]
    enough = len(sets) > SETS or (len(sets) == SETS and found.estimate > EARLY_GAIN)
    if enough and found.low > margin and min(medians) > margin:
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


def _between_sets(medians: Sequence[float], error: float) -> float:
    """Half the width of Student's interval for the mean of the sets, their spread taken together with `PROCESS_SD`.

    `error`: how often the mean lies outside it, both sides together.
    """
    from scipy.special import stdtrit

    count, spread = len(medians), float(np.var(medians, ddof=1))
    freedom = PRIOR_SETS + count - 1
    deviation = math.sqrt((PRIOR_SETS * PROCESS_SD**2 + (count - 1) * spread) / freedom)
    return float(stdtrit(freedom, 1 - error / 2)) * deviation / math.sqrt(count)


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
