"""Whether a treated program trains alike, told from how far its weights come."""

from __future__ import annotations

import math

import pytest

from profiler_doctor.analyzer.capture.child.moving import MOST_WEIGHTS, Moving
from profiler_doctor.analyzer.trial_training import Moves, apart, otherwise

WAY, DOUBLE, ASTRAY = (3.0, 4.0), (6.0, 8.0), (-3.0, -4.0)


def test_the_distance_is_a_share_of_the_longer_way() -> None:
    assert apart(WAY, WAY) == 0.0
    assert apart(WAY, DOUBLE) == 0.5  # 5 of 10
    assert apart(WAY, ASTRAY) == 2.0
    assert apart(WAY, (0.0, 0.0)) == 1.0
    assert apart((0.0, 0.0), (0.0, 0.0)) == 0.0
    assert apart(WAY, (math.nan, 4.0)) == math.inf
    assert apart(WAY, (1.0,)) == math.inf


def test_another_way_is_told_and_rounding_is_not() -> None:
    assert otherwise([Moves(WAY, DOUBLE)] * 3).startswith("it trains otherwise")
    assert otherwise([Moves(WAY, (3.0, 4.5))] * 3) == ""  # 0.5 of 5.4


def test_a_program_that_differs_from_itself_is_not_held_to_it() -> None:
    own = [Moves(WAY, DOUBLE), Moves((3.5, 4.5), DOUBLE), Moves((2.0, 3.0), DOUBLE)]  # 2.1 of 5.7 apart: 37 %
    assert otherwise(own) == ""


def test_one_set_and_a_program_that_does_not_train_say_nothing() -> None:
    assert otherwise([Moves(WAY, DOUBLE)]) == ""
    assert otherwise([Moves((0.0, 0.0), WAY)] * 3) == ""
    assert otherwise([Moves((), ())] * 3) == ""


def test_the_move_of_a_weight_is_the_weighted_sum_of_its_elements_moves_and_frozen_ones_are_left_out() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    moving = Moving(torch)
    moving.begin(model)
    moving.begin(model)
    with torch.no_grad():
        model.weight += torch.tensor([[1.0, 2.0]])
        model.bias += 5.0
    expected = 1.0 * (1 + 0.5 * math.cos(0)) + 2.0 * (1 + 0.5 * math.cos(1))
    assert moving.moved() == [pytest.approx(expected, rel=1e-6)]


def test_no_more_weights_are_looked_at_than_fit_into_a_message() -> None:
    torch = pytest.importorskip("torch")
    moving = Moving(torch)
    moving.begin(torch.nn.ParameterList(torch.nn.Parameter(torch.ones(1)) for _ in range(MOST_WEIGHTS + 9)))
    assert len(moving.moved()) == MOST_WEIGHTS
