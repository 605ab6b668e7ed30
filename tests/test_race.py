"""From turns to a verdict on time: a loss must be beyond the tolerance, proved, and above the absolute floor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profiler_doctor.analyzer.race import decided, judged, losses
from profiler_doctor.analyzer.trial_block import Block
from profiler_doctor.analyzer.trial_set import Pair

STEP_NS = 10_000_000


def turns(ratio: float, noise: float = 0.0, pairs: int = 40, sets: int = 4, step_ns: int = STEP_NS) -> list[list[Pair]]:
    """Blocks of ten steps whose head takes `ratio` times as long, give or take `noise`."""
    rng = np.random.default_rng(1)

    def block(factor: float) -> Block:
        took = round(10 * step_ns * factor * math.exp(noise * rng.standard_normal()))
        return Block(steps=10, wall_ns=took, cpu_ns=took)

    return [[Pair(block(1.0), block(ratio), treated_first=False) for _ in range(pairs)] for _ in range(sets)]


def test_the_head_taking_longer_is_a_loss_above_zero() -> None:
    (pairs, *_) = turns(1.25)

    assert losses(pairs, "cpu") == pytest.approx([math.log(1.25)] * 40)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.0, "pass"), (1.03, "pass"), (1.10, "regression"), (1.25, "regression"), (0.80, "faster")],
)
def test_steady_turns_decide_by_the_tolerance(ratio: float, verdict: str) -> None:
    found = judged(turns(ratio), ("cpu", "wall"), 0.05)

    assert found.verdict == verdict
    assert found.ratio == pytest.approx(ratio, rel=1e-3)


def test_a_wider_tolerance_lets_more_pass() -> None:
    assert judged(turns(1.10), ("cpu", "wall"), 0.15).verdict == "pass"


def test_what_noise_hides_is_undecided_and_says_what_would_have_shown() -> None:
    found = judged(turns(1.06, noise=0.3, pairs=10, sets=3), ("cpu", "wall"), 0.05)

    assert found.verdict == "inconclusive"
    assert "would have shown" in found.reason or "too noisy" in found.reason


def test_the_same_code_in_noise_passes_where_a_loss_beyond_the_tolerance_would_have_shown() -> None:
    assert judged(turns(1.0, noise=0.08), ("cpu", "wall"), 0.05).verdict == "pass"
    assert judged(turns(1.0, noise=0.5, pairs=10, sets=3), ("cpu", "wall"), 0.05).verdict == "inconclusive"


def test_microseconds_are_no_regression_however_surely_they_are_measured() -> None:
    assert judged(turns(1.25, step_ns=40_000), ("cpu", "wall"), 0.05).verdict == "pass"


def test_one_set_of_turns_proves_nothing() -> None:
    (ratios,) = (losses(pairs, "cpu") for pairs in turns(1.25, noise=0.05, sets=1))

    assert decided([ratios], 0.05, STEP_NS)[0] != "regression"


def test_clocks_that_contradict_each_other_leave_it_undecided() -> None:
    slow, fast = turns(1.25), turns(0.80)
    mixed = [
        [
            Pair(
                one.baseline,
                Block(steps=10, wall_ns=two.treated.wall_ns, cpu_ns=one.treated.cpu_ns),
                treated_first=False,
            )
            for one, two in zip(first, second, strict=True)
        ]
        for first, second in zip(slow, fast, strict=True)
    ]

    assert judged(mixed, ("cpu", "wall"), 0.05).verdict == "inconclusive"


def test_no_turns_at_all_are_undecided() -> None:
    assert judged([], ("cpu", "wall"), 0.05, "the time of --budget ran out").verdict == "inconclusive"
