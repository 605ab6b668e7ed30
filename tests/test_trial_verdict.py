"""What a trial says, given what it measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.trial import _no_alternatives, _share
from profiler_doctor.analyzer.trial_block import Block, Treated
from profiler_doctor.analyzer.trial_program import Pace
from profiler_doctor.analyzer.trial_set import Pair, block_size
from profiler_doctor.analyzer.trial_verdict import Cure, Evidence, unmade, verdict

EQUAL = Treated(cold_s=0.5, equal=True, error=2e-7, tolerance=1e-5, reasons=())
JITTER = (0.0, 0.01, -0.01, 0.02, -0.02, 0.005, -0.005, 0.015, -0.015, 0.0)


def _fix(name: str = "cure", **more: Any) -> Fix:
    fields = {"doc": "", "cures": ("ABC001",), "snippet": "cured = True\n", "changes_numbers": "", "rank": 3}
    return Fix(**{"name": name, "treat": lambda root: nullcontext(root.call), **fields, **more})


def _pairs(cpu: float, wall: float | None = None, *, count: int = 10, stale: bool = False) -> tuple[Pair, ...]:
    """Blocks of 10 steps and 100 ms; the treated side is `cpu` times as fast by CPU time, `wall` by wall time."""
    made = []
    for place in range(count):
        unit = 100_000_000 * (1 + JITTER[place % 10])
        treated = Block(10, round(unit / (wall or cpu)), round(unit / cpu), calls=20, stale=stale)
        made.append(Pair(Block(10, 100_000_000, 100_000_000, calls=20), treated, treated_first=place % 2 == 0))
    return tuple(made)


def _verdict(sets: Sequence[tuple[Pair, ...]], treated: tuple[Treated, ...] = (EQUAL,), fix: Fix | None = None) -> Any:
    return verdict(Cure((fix or _fix(),)), Evidence(tuple(sets), treated), ("cpu", "wall"))


def test_a_gain_with_equal_answers_is_verified_with_its_numbers() -> None:
    trial = _verdict([_pairs(1.5)] * 3)
    assert (trial.verdict, trial.reason) == ("verified", "")
    assert trial.speedup == pytest.approx(1.5, rel=0.01)
    assert trial.low < 1.5 < trial.high
    assert (trial.outputs_equal, trial.error, trial.tolerance) == (True, 2e-7, 1e-5)
    assert [change.clock for change in trial.changes] == ["cpu", "wall"]
    assert trial.before_ns == 10_000_000
    assert trial.after_ns == pytest.approx(10_000_000 / 1.5, rel=0.01)
    # two calls a step, 3.33 ms saved a step: 0.5 s of cold start is 300 calls
    assert trial.break_even_calls == pytest.approx(300, rel=0.02)
    assert (trial.cures, trial.snippet) == (("ABC001",), "cured = True\n")


def test_what_the_fix_said_of_each_root_stands_in_the_trial_once() -> None:
    noted = replace(EQUAL, notes=("ran on CPU (2 nodes)",))
    assert _verdict([_pairs(1.5)] * 3, (noted, noted, EQUAL)).notes == ("ran on CPU (2 nodes)",)


def test_other_answers_are_rejected_whatever_the_gain() -> None:
    wrong = Treated(0.0, False, 0.31, 1e-5, ("output[0] differs by 3.1e-01",))
    trial = _verdict([_pairs(3.0)] * 3, (EQUAL, wrong))
    assert trial.verdict == "rejected"
    assert "output[0] differs by 3.1e-01 (relative error 3.1e-01, allowed 1e-05)" in trial.reason
    assert (trial.outputs_equal, trial.error) == (False, 0.31)


def test_a_difference_that_has_no_number_leaves_none_in_the_document() -> None:
    wrong = Treated(0.0, False, math.inf, 1e-5, ("output is missing",))
    trial = _verdict([], (wrong,))
    assert (trial.verdict, trial.error) == ("rejected", None)


def test_answers_that_could_not_be_compared_are_never_verified() -> None:
    unknown = Treated(0.0, None, 0.0, 0.0, ("no copy of it could be run: TypeError: cannot pickle",))
    for treated in ((unknown,), (EQUAL, unknown), ()):
        trial = _verdict([_pairs(3.0)] * 3, treated)
        assert (trial.verdict, trial.outputs_equal) == ("inconclusive", None)
        assert trial.reason.startswith("the answers could not be compared: no ")


def test_a_fix_of_the_whole_process_may_be_verified_where_no_module_is_called() -> None:
    trial = _verdict([_pairs(1.5)] * 3, (), _fix(treat=None, clock="wall"))
    assert (trial.verdict, trial.outputs_equal) == ("verified", None)


def test_a_loss_and_no_gain_are_rejected_with_the_interval() -> None:
    slower, same = _verdict([_pairs(0.8)] * 3), _verdict([_pairs(1.001)] * 3)
    assert slower.verdict == same.verdict == "rejected"
    assert slower.reason.startswith("slower: 0.80 times as fast by CPU time (0.79 to 0.81)")
    assert same.reason.startswith("no gain: 1.00 times as fast by CPU time (")


def test_a_trial_that_could_not_tell_says_what_it_would_have_seen() -> None:
    trial = _verdict([_pairs(1.07), _pairs(1.04), _pairs(1.0)])
    assert trial.verdict == "inconclusive"
    assert "% or more would have shown" in trial.reason


def test_a_large_gain_that_too_few_sets_show_is_not_told_what_would_have_shown() -> None:
    trial = _verdict([_pairs(1.8)] * 2)
    assert trial.verdict == "inconclusive"
    assert trial.reason.endswith("; too few pairs of runs to be sure of it")


def test_a_trial_that_only_a_doubling_would_have_shown_in_says_that_it_was_too_noisy() -> None:
    trial = _verdict([_pairs(0.2), _pairs(1.2), _pairs(3.0)])
    assert trial.verdict == "inconclusive"
    assert trial.reason.endswith("; too noisy to show any gain")


def test_clocks_that_contradict_each_other_verify_nothing() -> None:
    trial = _verdict([_pairs(1.5, 0.7)] * 3)
    assert trial.verdict == "inconclusive"
    assert trial.reason.startswith("the clocks contradict each other: 1.50 times as fast by CPU time")


def test_the_first_clock_decides() -> None:
    evidence = Evidence((_pairs(1.0, 1.5),) * 3, (EQUAL,))
    by_wall = verdict(Cure((_fix(clock="wall"),)), evidence, ("wall", "cpu"))
    by_cpu = verdict(Cure((_fix(),)), evidence, ("cpu", "wall"))
    assert (by_wall.verdict, by_wall.clock) == ("verified", "wall")
    assert (by_cpu.verdict, by_cpu.clock) == ("rejected", "cpu")


def test_weights_that_went_stale_are_rejected() -> None:
    trial = _verdict([_pairs(2.0)] * 2 + [_pairs(2.0, stale=True)])
    assert trial.verdict == "rejected"
    assert "go stale" in trial.reason


def test_a_trial_that_was_cut_says_so_and_shows_what_it_has() -> None:
    evidence = Evidence((_pairs(1.5), _pairs(1.5, count=3)), (EQUAL,), "the time for this trial ran out")
    trial = verdict(Cure((_fix(),)), evidence, ("cpu", "wall"))
    assert trial.verdict == "inconclusive"
    assert trial.reason.endswith("; the time for this trial ran out")
    assert trial.changes[0].pairs == 10  # three pairs are no set
    nothing = verdict(Cure((_fix(),)), Evidence((), (EQUAL,), "the time for this trial ran out"), ("cpu", "wall"))
    assert (nothing.verdict, nothing.reason) == ("inconclusive", "the time for this trial ran out")


def test_a_trial_without_a_measurement_still_brings_its_snippet() -> None:
    trial = unmade(Cure((_fix("a"), _fix("b"))), "not_tried", "why")
    assert (trial.fix, trial.verdict, trial.reason, trial.speedup) == ("a + b", "not_tried", "why", None)
    assert trial.snippet == "cured = True\ncured = True\n"


def test_a_gain_that_saves_no_wall_time_never_breaks_even() -> None:
    trial = _verdict([_pairs(1.5, 1.0)] * 3)
    assert trial.verdict == "verified"
    assert trial.break_even_calls is None


def test_blocks_are_long_enough_for_the_faster_side_but_not_endless_for_the_slower() -> None:
    assert block_size(1e6, 1e6) == 50  # 50 ms of 1 ms steps
    assert block_size(10e6, 5e6) == 10  # 50 ms of the faster one's steps
    assert block_size(60e6, 1e6) == 4  # 250 ms of the slower one's steps at most ...
    assert block_size(30e6, 1e6) == 8
    assert block_size(300e6, 1e6) == 1  # ... and one step at least
    assert block_size(0.0, 0.0) == 50_000_000


def test_short_scripts_are_treated_sooner_and_both_sides_keep_the_same_pace() -> None:
    assert Pace.of(0, compare=True) == Pace(2, 8, (0, 1, 4))
    assert Pace.of(500, compare=False) == Pace(2, 5)
    assert Pace.of(12, compare=True) == Pace(1, 4, (0, 1), moved_at=3)
    assert Pace.of(12, compare=False) == Pace(1, 3, moved_at=3)


def test_long_steps_are_few_before_time_is_taken() -> None:
    assert Pace.of(500, compare=True, step_s=0.25) == Pace(1, 3, (0, 1), moved_at=2)
    assert Pace.of(12, compare=False, step_s=0.25) == Pace(1, 2, moved_at=2)
    assert Pace.of(500, compare=False, step_s=0.2) == Pace(2, 5)


def test_a_compiler_gets_two_shares_of_what_is_left_and_the_joint_trial_one() -> None:
    cheap, dear = Cure((_fix("cheap"),)), Cure((_fix("dear", rank=9),))
    assert _share(cheap, [dear], 1) == pytest.approx(1 / 4)
    assert _share(dear, [], 1) == pytest.approx(2 / 3)
    assert _share(cheap, [], 0) == 1.0


def test_of_fixes_for_the_very_same_illness_only_the_best_is_tried_together_with_others() -> None:
    some, one, other = _fix("some", cures=("ENV001",)), _fix("one", cures=("ENV001",)), _fix("other")
    verified = {Cure((some,)): 1.3, Cure((one,)): 2.0, Cure((other,)): 1.1}
    assert [fix.name for fix in _no_alternatives(verified)] == ["one", "other"]


def test_a_gain_that_is_no_larger_than_what_doing_nothing_showed_is_not_verified() -> None:
    evidence = Evidence((_pairs(1.2), _pairs(1.25), _pairs(1.3)), (EQUAL,))
    quiet = verdict(Cure((_fix(),)), evidence, ("cpu", "wall"), noise=0.03)
    noisy = verdict(Cure((_fix(),)), evidence, ("cpu", "wall"), noise=0.21)
    unknown = verdict(Cure((_fix(),)), evidence, ("cpu", "wall"))
    assert (quiet.verdict, quiet.noise, quiet.doubts) == ("verified", 0.03, ())
    assert (unknown.verdict, unknown.noise) == ("verified", None)
    assert "was not measured" in unknown.doubts[0]
    assert noisy.verdict == "inconclusive"
    assert noisy.reason.endswith(", but doing nothing showed up to 21% here")
    assert noisy.doubts == ("The machine is too noisy to judge small gains: doing nothing showed up to 21%.",)


def test_answers_that_differ_without_the_fix_as_well_are_not_held_against_it() -> None:
    wrong = Treated(0.0, False, 0.3, 1e-5, ("output differs by 3.0e-01",))
    sets = (_pairs(1.5),) * 3
    both = verdict(Cure((_fix(),)), Evidence(sets, (wrong,), untreated=(wrong,)), ("cpu", "wall"))
    alone = verdict(Cure((_fix(),)), Evidence(sets, (wrong,), untreated=(EQUAL,)), ("cpu", "wall"))
    own = verdict(Cure((_fix(),)), Evidence(sets, (EQUAL,), untreated=(wrong,)), ("cpu", "wall"))
    assert (both.verdict, both.outputs_equal) == ("inconclusive", None)
    assert both.reason == "the answers could not be compared: even without the fix output differs by 3.0e-01"
    assert (alone.verdict, own.verdict) == ("rejected", "verified")


def test_two_sets_that_rule_out_a_gain_are_rejected_as_no_gain() -> None:
    trial = _verdict([_pairs(0.99), _pairs(0.985)])
    assert trial.verdict == "rejected"
    assert trial.reason.startswith("no gain: 0.99 times as fast by CPU time")
