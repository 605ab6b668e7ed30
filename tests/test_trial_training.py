"""Whether a treated program trains alike, told from how far its weights come."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from profiler_doctor.analyzer.capture.child.moving import MOST_WEIGHTS, Moving
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.plugins import find, in_file
from profiler_doctor.analyzer.trial_program import Pace, Program
from profiler_doctor.analyzer.trial_set import PairSet
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


@pytest.mark.parametrize("step_s", [0.0, 2.0])
@pytest.mark.parametrize("known_steps", [0, 10, 200])
def test_all_sets_of_a_trial_tell_at_the_same_step_before_time_is_taken(known_steps: int, step_s: float) -> None:
    paces = [Pace.of(known_steps, compare, step_s) for compare in (True, False)]
    assert len({pace.moved_at for pace in paces}) == 1
    assert all(pace.treat_after < pace.moved_at <= pace.ready_after for pace in paces)


TRAINS = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
while True:
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OTHER_RATE = """
from contextlib import contextmanager
from profiler_doctor.analyzer.kinds import Fix

@contextmanager
def faster(machine):
    import torch
    begin = torch.optim.AdamW.__init__
    def begun(self, *args, **kwargs):
        begin(self, *args, **{**kwargs, "lr": 2e-3})
    torch.optim.AdamW.__init__ = begun
    yield

FIX = Fix(name="another-rate", doc="", cures=(), snippet="", changes_numbers="", rank=1, set_up=faster)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "told"), [("another-rate", True), ("fused-optimizer", False)])
def test_another_learning_rate_is_told_and_a_fused_optimizer_is_not(name: str, told: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script, file = tmp_path / "train.py", tmp_path / "mine.py"
    script.write_text(TRAINS, encoding="utf-8")
    file.write_text(OTHER_RATE, encoding="utf-8")
    machine = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=True)
    program = Program(
        target=Target(script=str(script)),
        folder=tmp_path,
        source=StepSource(kind="optimizer"),
        machine=machine,
        fix_files=(str(file),),
    )
    known = [*find("profiler_doctor.fixes", Fix).items, *in_file(file, Fix)]
    fixes = tuple(fix for fix in known if fix.name == name)
    moves = []
    for number in (0, 1):
        with PairSet(program, "set", fixes, compare=number == 0) as pairs:
            pairs.begin(time.monotonic_ns() + 60_000_000_000)
            moves.append(Moves(pairs.baseline.moved, pairs.treated.moved))
    assert len(moves[0].untreated) == 4
    assert bool(otherwise(moves)) is told
