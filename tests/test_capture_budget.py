"""How the phases share the time."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.budget import Budget

BUDGET = Budget(total_s=120.0, begun_s=1000.0, weights={"observe": 3.0, "stacks": 1.0, "trials": 6.0})


@pytest.mark.parametrize(
    ("phase", "now_s", "expected_s"),
    [
        ("observe", 1000.0, 36.0),  # 120 · 3/10
        ("stacks", 1010.0, 110 / 7),  # observe took 10 s only: the rest has 110 s
        ("trials", 1020.0, 100.0),  # the last one may use everything
        ("trials", 1200.0, 0.0),  # nothing is left, and never less than nothing
    ],
)
def test_a_phase_gets_its_share_of_what_is_left_among_those_to_come(
    phase: str, now_s: float, expected_s: float
) -> None:
    assert BUDGET.allowance_s(phase, now_s) == pytest.approx(expected_s)


def test_without_trials_their_share_goes_to_the_rest() -> None:
    budget, with_trials = Budget.start(100.0, verify=False), Budget.start(100.0)
    assert budget.allowance_s("stacks", budget.begun_s) == pytest.approx(100.0)
    assert budget.allowance_s("observe", 0.0) > with_trials.allowance_s("observe", 0.0)
