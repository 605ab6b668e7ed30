"""What the blocks of a trial say beside its verdict."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.model import Change, StepSpread
from profiler_doctor.analyzer.trial_block import Block
from profiler_doctor.analyzer.trial_numbers import break_even, doubts, peak_bytes, spread, step_ns, treated, untreated
from profiler_doctor.analyzer.trial_set import Pair

BLOCK = Block(steps=10, wall_ns=100_000_000, cpu_ns=100_000_000, calls=20)


def _pair(**treated_side: int) -> Pair:
    return Pair(BLOCK, Block(**{**vars(BLOCK), **treated_side}), treated_first=True)


def _change(clock: str, ratio: float) -> Change:
    return Change(clock=clock, ratio=ratio, low=ratio - 0.05, high=ratio + 0.05, pairs=30, verdict="faster")  # type: ignore[arg-type]  # one of the three


def test_single_steps_spread_over_all_blocks_of_a_side_and_a_few_of_them_over_nothing() -> None:
    hundred = tuple(range(1, 101))
    half = [Pair(BLOCK, Block(50, 1, 1, step_ns=part), treated_first=True) for part in (hundred[:50], hundred[50:])]
    # of 1 … 100 the median is 50.5 (rounded to even), 5 % exceed 95.05 and 1 % exceed 99.01
    assert spread(half, treated) == StepSpread(p50=50, p95=95, p99=99, steps=100)
    assert spread(half, untreated) is None


def test_a_step_is_the_median_of_whole_blocks() -> None:
    pairs = [_pair(wall_ns=ns) for ns in (50_000_000, 60_000_000, 900_000_000)]
    assert (step_ns(pairs, untreated), step_ns(pairs, treated), step_ns([], treated)) == (10_000_000, 6_000_000, None)


def test_memory_is_of_the_sets_in_which_no_copies_were_held() -> None:
    sets = [[_pair(peak_bytes=9_000)], [_pair(peak_bytes=5_000)], [_pair(peak_bytes=7_000), _pair(peak_bytes=6_000)]]
    assert peak_bytes(sets, treated) == 7_000
    assert peak_bytes(sets[:1], treated) is None
    assert peak_bytes(sets, untreated) is None  # the system did not tell


def test_a_cold_start_is_paid_back_by_what_each_call_saves() -> None:
    # 2 calls a step, 5 ms saved a step: 1 s is 400 calls
    assert break_even([_pair(wall_ns=50_000_000)], 1.0) == 400
    assert break_even([_pair()], 1.0) is None
    assert break_even([_pair(wall_ns=50_000_000)], None) is None
    assert break_even([], 1.0) is None


@pytest.mark.parametrize(("interruptions", "said"), [(0, []), (9, []), (11, ["55 times a second"])])
def test_shared_cpus_are_a_doubt(interruptions: int, said: list[str]) -> None:
    # both sides of the pair took 0.2 s together: 10 interruptions are 50 a second
    found = list(doubts([_pair(interruptions=interruptions)], ()))
    assert [sentence for sentence in found if all(part in sentence for part in said)] == found
    assert len(found) == len(said)


def test_clocks_that_disagree_beyond_their_intervals_are_a_doubt_and_others_are_none() -> None:
    assert list(doubts([], (_change("cpu", 1.3), _change("wall", 1.25)))) == []
    (sentence,) = doubts([], (_change("cpu", 1.3), _change("wall", 1.1)))
    assert sentence.startswith("The clocks disagree: 1.30 times as fast by cpu time, 1.10 by wall time.")
