"""Many trials drawn from recorded sets, each walked as a real one is: how often which verdict comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.statistics import Direction, Floats

RUN = 8
"""Pairs drawn together when a set is resampled, so that what is alike in time stays together."""


@dataclass(frozen=True)
class Design:
    """How trials are drawn."""

    most_pairs: int = 0
    """In a set; 0: drawn anew for each trial, as what a budget affords differs."""
    most_sets: int = max(statistics.SHARES)
    turned: bool = False
    """The sides change places: what was slower is then a gain."""
    either: bool = False
    """Which side is called the treated one is drawn too, which the same code on both sides allows."""


@dataclass(frozen=True)
class Outcome:
    """Of all trials of one design."""

    trials: int
    verdicts: Counter[Direction]
    sets: float
    """In the mean, over the trials."""
    pairs: float
    """Likewise, of all sets together."""

    def rate(self, direction: Direction) -> float:
        """The share of trials with this verdict."""
        return self.verdicts[direction] / self.trials


def resampled(sets: Sequence[Floats], design: Design, count: int) -> Outcome:
    """So many trials of this design."""
    with ProcessPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(partial(_one, list(sets), design), range(count), chunksize=10))
    verdicts = Counter(direction for direction, _ in found)
    total = [[one.size for one in done] for _, done in found]
    return Outcome(count, verdicts, sum(map(len, total)) / count, sum(map(sum, total)) / count)


def _one(sets: list[Floats], design: Design, seed: int) -> tuple[Direction, list[Floats]]:
    rng = np.random.default_rng(seed)
    most = design.most_pairs or int(rng.choice(list(statistics.LOOKS)))
    drawn = [_drawn(sets[rng.integers(len(sets))], most, design, rng) for _ in range(max(statistics.SHARES) + 1)]
    done: list[Floats] = []
    pairs = statistics.LEAST_PAIRS
    while True:
        now = drawn[len(done)][:pairs]
        move = statistics.next_move(done, now, most, design.most_sets, seed)
        if move == "next pair":
            pairs += 1
            continue
        done.append(now)
        pairs = statistics.LEAST_PAIRS
        if move == "end":
            return statistics.judge(done, seed), done


def _drawn(pairs: Floats, size: int, design: Design, rng: np.random.Generator) -> Floats:
    """A set of `size` pairs in runs of neighbours."""
    starts = rng.integers(pairs.size, size=-(-size // RUN))
    index = ((starts[:, None] + np.arange(RUN)) % pairs.size).reshape(-1)[:size]
    sign = rng.choice([-1.0, 1.0]) if design.either else -1.0 if design.turned else 1.0
    drawn: Floats = pairs[index] * sign
    return drawn
