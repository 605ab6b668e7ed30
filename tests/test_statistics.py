"""A difference is told from noise, and noise is never told as a difference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.model import Change
from profiler_doctor.analyzer.statistics import Floats

MARGIN = math.log(1.02)


def _noise(rng: np.random.Generator, pairs: int, deviation: float, alike: float = 0.3) -> Floats:
    """Noise of which each value is alike to the one before (an AR(1) process of the given deviation)."""
    shocks = rng.standard_normal(pairs) * deviation * math.sqrt(1 - alike**2)
    values = np.empty(pairs)
    value = rng.standard_normal() * deviation
    for place in range(pairs):
        value = alike * value + shocks[place]
        values[place] = value
    return values


def _sets(seed: int, gain: float, pairs: int, deviation: float, count: int = 3) -> list[Floats]:
    """Faked sets: a true gain, a difference between the two processes of each set, and noise."""
    rng = np.random.default_rng(seed)
    return [math.log(gain) + rng.standard_normal() * 0.0095 + _noise(rng, pairs, deviation) for _ in range(count)]


def _whole_trial(sets: list[Floats], most: int, most_sets: int = 3) -> statistics.Direction:
    """A trial as the parent walks it, on sets that were recorded beforehand."""
    done: list[Floats] = []
    pairs = 1
    while True:
        now = sets[len(done)][:pairs]
        move = statistics.next_move(done, now, most, most_sets)
        if move == "next pair":
            pairs += 1
            continue
        done.append(now)
        pairs = 1
        if move == "end":
            return statistics.judge(done)


def test_a_log_ratio_is_above_zero_where_the_treated_block_is_shorter() -> None:
    ratios = statistics.log_ratios([200, 100, 100], [100, 100, 400])
    assert ratios.tolist() == pytest.approx([math.log(2), 0.0, -math.log(4)])


def test_blocks_in_which_a_clock_did_not_move_are_left_out() -> None:
    assert statistics.log_ratios([0, 100, 100], [100, 0, 100]).tolist() == [0.0]


def test_blocks_that_have_no_partner_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        statistics.log_ratios([1, 2], [1])


def test_the_interval_of_blocks_that_are_all_alike_is_what_processes_may_still_differ_by() -> None:
    found = statistics.interval([np.full(10, 0.1)] * 3)
    # Student's t at 3 degrees of freedom and 0.9875 is 4.1765 (from a table of 2.5 % in both tails); the spread of
    # three equal sets and one set's worth of 0.0095 is 0.0095 / √3, and the mean of three sets has 1 / √3 of that
    assert found.estimate == pytest.approx(0.1)
    assert found.estimate - found.low == pytest.approx(4.1765 * 0.0095 / 3, rel=1e-3)
    assert found.high - found.estimate == pytest.approx(4.1765 * 0.0095 / 3, rel=1e-3)


def test_the_estimate_is_the_mean_of_the_sets_medians() -> None:
    sets = [np.array([0.0, 0.1, 0.2, 0.3, 9.0]), np.full(5, 0.5), np.full(5, 0.8)]
    assert statistics.interval(sets).estimate == pytest.approx((0.2 + 0.5 + 0.8) / 3)


def test_resampling_spans_the_sets_however_sharp_each_of_them_is_and_the_interval_is_wider() -> None:
    sets = [np.full(80, 0.02), np.full(80, 0.05), np.full(80, 0.08)]
    found, whole = statistics.resampled(sets), statistics.interval(sets)
    assert (found.low, found.high) == pytest.approx((0.02, 0.08))
    assert whole.low < 0.02
    assert whole.high > 0.08


def test_fewer_than_three_sets_have_a_wider_interval_for_what_processes_differ_by() -> None:
    found = statistics.interval([np.full(80, 0.1)])
    # 2.576 standard deviations of 0.0095, the 99 % quantile of what two processes of the same code differ by
    assert found.estimate - found.low == pytest.approx(2.576 * 0.0095, rel=0.01)


@pytest.mark.parametrize("sets", [[], [np.full(4, 0.1)] * 3, [np.full(80, 0.1), np.array([])]])
def test_too_little_data_has_no_interval(sets: list[Floats]) -> None:
    with pytest.raises(ValueError, match="at least 5 pairs"):
        statistics.interval(sets)


def test_all_ways_to_be_wrong_add_up_to_one_percent() -> None:
    total = sum(statistics.allowed_error(pairs, sets) for pairs in (10, 20, 40, 80) for sets in (3, 4, 5, 6))
    assert total == pytest.approx(0.01)


@pytest.mark.parametrize(("gain", "pairs", "deviation"), [(1.3, 10, 0.05), (1.1, 40, 0.05), (1.07, 80, 0.02)])
def test_a_known_gain_is_found(gain: float, pairs: int, deviation: float) -> None:
    verdicts = [statistics.judge(_sets(seed, gain, pairs, deviation, count=5)) for seed in range(20)]
    assert verdicts.count("faster") >= 17


def test_a_known_loss_is_found() -> None:
    assert [statistics.judge(_sets(seed, 1 / 1.2, 20, 0.05)) for seed in range(10)].count("slower") >= 9


def test_a_gain_within_the_margin_is_never_called_faster() -> None:
    rng = np.random.default_rng(2)
    sets = [math.log(1.015) + _noise(rng, 80, 0.01) for _ in range(6)]
    assert statistics.judge(sets) != "faster"
    assert statistics.judge([one + math.log(1.03) for one in sets]) == "faster"


def test_a_gain_below_sixteen_percent_needs_a_fourth_set() -> None:
    ten, twenty = np.full(20, math.log(1.1)), np.full(20, math.log(1.2))
    assert statistics.judge([ten] * 3) == "inconclusive"
    assert statistics.judge([ten] * 4) == "faster"
    assert statistics.judge([twenty] * 3) == "faster"


def test_no_gain_measured_sharply_in_six_sets_is_the_same() -> None:
    sets = [np.full(40, 0.001), np.full(40, -0.002), np.full(40, 0.0)] * 2
    assert statistics.judge(sets) == "same"


@pytest.mark.parametrize("deviation", [0.05, 0.15, 0.3])
def test_of_sixty_trials_of_the_same_code_none_is_called_faster(deviation: float) -> None:
    verdicts = [_whole_trial(_sets(seed, 1.0, 20, deviation), most=20) for seed in range(60)]
    assert "faster" not in verdicts


def test_a_large_effect_is_decided_at_the_first_look() -> None:
    sets = _sets(1, 1.5, 80, 0.05)
    assert statistics.settled(sets[0][:10])
    assert _whole_trial(sets, most=80) == "faster"


def test_two_sets_never_verify_however_large_the_effect() -> None:
    assert statistics.judge([np.full(80, 1.0)] * 2) == "inconclusive"


def test_one_set_that_shows_no_gain_forbids_a_verdict() -> None:
    sets = [np.full(80, 0.6)] * 5
    assert statistics.judge([*sets, np.full(80, 0.5)]) == "faster"
    assert statistics.judge([*sets, np.full(80, 0.01)]) == "inconclusive"


def test_a_larger_gain_is_never_judged_lower() -> None:
    order = {"slower": 0, "inconclusive": 1, "same": 1, "faster": 2}
    noise = _sets(3, 1.0, 20, 0.05)
    ranks = [order[statistics.judge([one + gain for one in noise])] for gain in np.linspace(-0.3, 0.3, 25)]
    assert ranks == sorted(ranks)


def test_swapping_the_sides_turns_the_estimate_round() -> None:
    sets = _sets(5, 1.2, 40, 0.1)
    there, back = statistics.interval(sets), statistics.interval([-one for one in sets])
    assert there.estimate == pytest.approx(-back.estimate)
    assert there.low == pytest.approx(-back.high, abs=0.03)


def test_more_pairs_give_a_narrower_interval_and_show_smaller_gains() -> None:
    few, many = _sets(7, 1.1, 10, 0.1), _sets(7, 1.1, 80, 0.1)
    assert statistics.interval(many).half_below < statistics.interval(few).half_below
    assert statistics.detectable(many) < statistics.detectable(few)


def test_what_is_detectable_lies_beyond_the_margin_even_without_noise() -> None:
    assert statistics.detectable([np.full(10, 0.1)] * 3) == pytest.approx(math.expm1(0.10))
    assert 0.02 < statistics.detectable([np.full(10, 0.1)] * 6) < 0.05


def test_the_same_data_give_the_same_interval() -> None:
    sets = _sets(9, 1.1, 20, 0.2)
    assert statistics.interval(sets) == statistics.interval(sets)


def test_a_change_says_how_many_times_faster_on_one_clock() -> None:
    found = statistics.change("wall", [np.full(10, math.log(1.5))] * 3)
    assert found == Change(
        clock="wall",
        ratio=pytest.approx(1.5),
        low=pytest.approx(1.5 * math.exp(-4.1765 * 0.0095 / 3), rel=1e-4),
        high=pytest.approx(1.5 * math.exp(4.1765 * 0.0095 / 3), rel=1e-4),
        pairs=30,
        verdict="faster",
    )


def test_one_set_at_its_first_look_is_too_early_to_give_up() -> None:
    slower = _noise(np.random.default_rng(4), 20, 0.05) - 0.5
    assert statistics.next_move([], slower[:10], most=80) == "next pair"
    assert statistics.next_move([], slower, most=80) == "end"


def test_the_first_set_alone_decides_how_many_pairs_the_later_ones_have() -> None:
    first = np.full(10, 0.5)
    assert statistics.next_move([], first, most=80) == "next set"
    assert statistics.next_move([first], np.full(9, 0.5), most=80) == "next pair"
    assert statistics.next_move([first], np.full(10, 0.5), most=80) == "next set"
    assert statistics.next_move([first, first], np.full(10, 0.5), most=80) == "end"


def test_sets_that_disagree_are_followed_by_another_while_there_is_time() -> None:
    one, other, none = np.full(20, 0.3), np.full(20, 0.01), np.full(20, -0.5)
    assert statistics.next_move([one, other], one, most=80, most_sets=6) == "next set"
    assert statistics.next_move([one, other], one, most=80, most_sets=3) == "end"
    assert statistics.next_move([one, one], one, most=80, most_sets=6) == "end"
    assert statistics.next_move([one, none], other, most=80, most_sets=6) == "end"  # no gain to be doubted


def test_a_set_is_over_when_its_time_is_up_whatever_it_shows() -> None:
    assert statistics.next_move([], _noise(np.random.default_rng(1), 15, 0.3), most=15) == "next set"


def test_clocks_contradict_each_other_only_when_both_are_sure() -> None:
    def change(low: float, high: float) -> Change:
        return Change(clock="cpu", ratio=(low + high) / 2, low=low, high=high, pairs=30, verdict="inconclusive")

    assert statistics.opposed(change(1.1, 1.2), change(0.8, 0.9))
    assert statistics.opposed(change(0.8, 0.9), change(1.1, 1.2))
    assert not statistics.opposed(change(1.1, 1.2), change(0.8, 1.05))
    assert not statistics.opposed(change(0.9, 1.2), change(0.8, 0.9))


def test_no_gain_is_told_from_two_sets_at_five_percent_and_never_from_one() -> None:
    # two equal sets and one set's worth of 0.0095: Student's t at 2 degrees of freedom and 0.95 is 2.920 (a table),
    # the spread is 0.0095 / √2, and the mean of two sets has 1 / √2 of that: 2.920 · 0.0095 / 2 = 0.01387
    limit = math.log(1.02) - 0.01387
    below, above = np.full(10, limit - 0.0002), np.full(10, limit + 0.0002)
    assert not statistics.no_gain([np.full(80, -0.5)])
    assert statistics.no_gain([below, below])
    assert not statistics.no_gain([above, above])


def test_a_trial_ends_after_two_sets_that_show_no_gain_and_goes_on_where_one_of_them_does() -> None:
    none, some = np.full(10, -0.01), np.full(10, 0.05)
    assert statistics.next_move([none], none, 10) == "end"
    assert statistics.next_move([none], some, 10) == "next set"


def test_a_gain_of_a_tenth_is_seldom_given_up_for_none() -> None:
    given_up = [statistics.no_gain(_sets(seed, 1.1, 20, 0.05, count=2)) for seed in range(100)]
    assert sum(given_up) <= 1
