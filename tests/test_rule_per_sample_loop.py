"""PYB006: the model is called for one sample, or one time step, after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.per_sample_loop import RULE
from tests.asking import ask
from tests.observed import arguments, observed, root
from tests.trace_builder import TraceBuilder

BATCH, FEATURES, OUT = 64, 32, 8
DATA = ([BATCH, FEATURES], "float")
LINEAR = arguments(([1, FEATURES], "float"), ([OUT, FEATURES], "float"), ([OUT], "float"))
CELL = arguments(([4, FEATURES], "float"), "", ([4 * FEATURES, FEATURES], "float"))
Turn = Callable[[TraceBuilder, int, int], None]


def by_select(built: TraceBuilder, at: int, index: int) -> None:
    built.op("aten::select", at, 2_000, **arguments(DATA, 0, index))
    built.op("aten::unsqueeze", at + 2_500, 1_000, **arguments(([FEATURES], "float"), 0))
    built.op("aten::linear", at + 4_000, 12_000, **LINEAR)


def by_slice(built: TraceBuilder, at: int, index: int) -> None:
    built.op("aten::slice", at, 2_000, **arguments(DATA, 0, index, index + 1, 1))
    built.op("aten::linear", at + 4_000, 12_000, **LINEAR)


def already_unbound(built: TraceBuilder, at: int, index: int) -> None:
    built.op("aten::linear", at + 4_000, 12_000, **LINEAR)


def a_time_step(built: TraceBuilder, at: int, index: int) -> None:
    built.op("aten::select", at, 2_000, **arguments(([BATCH, 4, FEATURES], "float"), 0, index))
    built.op("aten::lstm_cell", at + 4_000, 12_000, **CELL)


def steps_of_2_ms(folder: Path, turn: Turn, turns: int = 20, first: str = "", around: str = "") -> Trace:
    """Three steps; the turns of each take 20 µs, 16 (or 18) of them in ops."""
    built = TraceBuilder()
    for number in range(3):
        start = number * 2_000_000
        built.step(number, start, 2_000_000)
        if first:
            built.op(first, start + 1_000, 5_000, **arguments(DATA, 0))
        if around:
            built.annotation(around, start + 9_000, turns * 20_000 + 5_000)
        for place in range(turns):
            turn(built, start + 10_000 + place * 20_000, place)
    return built.trace(folder)


@pytest.mark.parametrize("turn", [by_select, by_slice])
def test_one_row_after_the_other_is_found(tmp_path: Path, turn: Turn) -> None:
    [seen] = ask(RULE, steps_of_2_ms(tmp_path, turn))

    assert seen.message == f"linear takes one row of a {BATCH}×{FEATURES} tensor at a time, 20 times in each step."
    assert seen.evidence["turns"] == 20
    assert len(seen.intervals_ns) == 40


def test_all_turns_but_one_are_at_stake(tmp_path: Path) -> None:
    [outcome] = examine(steps_of_2_ms(tmp_path, by_slice), Found((RULE,))).outcomes

    # 19 turns of 20 µs, Python between the ops included, of a step of 2 ms; 256 multiplications a turn take no time
    assert outcome.findings[0].stake.share == pytest.approx(19 * 20 / 2000, rel=0.01)


def test_the_gradients_of_all_turns_but_one_are_at_stake_too(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(3):
        start = number * 2_000_000
        built.step(number, start, 2_000_000)
        for place in range(20):
            args = {**LINEAR, "Sequence number": 100 * number + place}
            built.op("aten::slice", start + place * 20_000, 2_000, **arguments(DATA, 0, place, place + 1, 1))
            built.op("aten::linear", start + place * 20_000 + 4_000, 12_000, **args)
            gradient = "autograd::engine::evaluate_function: AddmmBackward0"
            at = start + 1_000_000 + place * 30_000
            built.op(gradient, at, 25_000, **{"Sequence number": 100 * number + place, "Fwd thread id": 1})

    [outcome] = examine(built.trace(tmp_path), Found((RULE,))).outcomes

    # 380 µs of the step go for the turns: 19 % of all that is not a gradient; and 19 gradients of 25 µs
    assert outcome.findings[0].stake.share == pytest.approx((0.19 * (2000 - 475) + 475) / 2000, rel=0.01)


def test_a_loop_over_a_whole_tensor_is_found_by_its_unbind(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of_2_ms(tmp_path, already_unbound, first="aten::unbind"))

    assert seen.evidence["turns"] == 20


def test_many_equal_layers_are_no_loop(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_2_ms(tmp_path, already_unbound)) == []


@pytest.mark.parametrize(("turns", "found"), [(15, False), (16, True)])
def test_it_speaks_from_16_turns_on(tmp_path: Path, turns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_2_ms(tmp_path, by_select, turns))) is found


def test_the_loaders_own_picking_is_not_the_models(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

    assert ask(RULE, steps_of_2_ms(tmp_path, by_select, around=loader)) == []


def test_the_same_row_every_time_is_no_walk_over_the_rows(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_2_ms(tmp_path, lambda built, at, _: by_select(built, at, 5))) == []


def test_a_number_picked_from_a_schedule_is_no_sample(tmp_path: Path) -> None:
    def diffusion(built: TraceBuilder, at: int, index: int) -> None:
        built.op("aten::select", at, 2_000, **arguments(([BATCH], "float"), 0, index))
        built.op("aten::linear", at + 4_000, 12_000, **LINEAR)

    assert ask(RULE, steps_of_2_ms(tmp_path, diffusion)) == []


def test_a_row_that_is_added_to_the_models_own_state_is_no_sample(tmp_path: Path) -> None:
    def decoding(built: TraceBuilder, at: int, index: int) -> None:
        state = ([1, FEATURES], "float")
        built.op("aten::select", at, 2_000, **arguments(DATA, 0, index))
        built.op("aten::add", at + 2_500, 1_000, **arguments(state, ([FEATURES], "float"), 1))
        built.op("aten::linear", at + 4_000, 12_000, **LINEAR)

    assert ask(RULE, steps_of_2_ms(tmp_path, decoding)) == []


def test_rows_that_hold_a_batch_each_are_no_samples(tmp_path: Path) -> None:
    def batches(built: TraceBuilder, at: int, index: int) -> None:
        many = ([16, FEATURES], "float")
        built.op("aten::select", at, 2_000, **arguments(([BATCH, 16, FEATURES], "float"), 0, index))
        built.op("aten::linear", at + 4_000, 12_000, **arguments(many, ([OUT, FEATURES], "float")))

    assert ask(RULE, steps_of_2_ms(tmp_path, batches)) == []


def test_a_cell_per_time_step_is_found_whatever_the_batch(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of_2_ms(tmp_path, a_time_step))

    assert seen.message == "lstm_cell takes one time step of a sequence at a time, 20 times in each step."
    assert seen.where.op == "aten::lstm_cell"


def test_the_cells_inside_of_a_recurrent_layer_are_the_librarys(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 2_000_000, 4_000_000):
        built.step(start // 2_000_000, start, 2_000_000).op("aten::lstm", start, 1_000_000)
        for place in range(20):
            built.op("aten::lstm_cell", start + 1_000 + place * 20_000, 12_000, **CELL)

    assert ask(RULE, built.trace(tmp_path)) == []


def own_module_frames(folder: Path, name: str) -> Trace:
    """Three steps in which a module of this name runs a linear layer 20 times for 4 rows each."""
    built = TraceBuilder()
    many = arguments(([4, FEATURES], "float"), ([OUT, FEATURES], "float"))
    for number in range(3):
        built.step(number, number * 2_000_000, 2_000_000)
        for place in range(20):
            at = number * 2_000_000 + 10_000 + place * 20_000
            built.frame(f"nn.Module: {name}_0", at, 18_000).op("aten::linear", at + 1_000, 12_000, **many)
    return built.trace(folder)


def test_a_cell_of_the_users_own_is_known_by_its_name(tmp_path: Path) -> None:
    [seen] = ask(RULE, own_module_frames(tmp_path, "MinimalCell"))

    assert seen.evidence["turns"] == 20
    assert seen.where.module == "MinimalCell_0"


def test_another_module_may_be_called_as_often_as_it_likes(tmp_path: Path) -> None:
    assert ask(RULE, own_module_frames(tmp_path, "Policy")) == []


def one_turn_per_step(folder: Path, turn: Turn, steps: int = 5) -> Trace:
    built = TraceBuilder()
    for number in range(steps):
        built.step(number, number * 20_000, 20_000)
        turn(built, number * 20_000 + 1_000, number + 7)
    return built.trace(folder)


@pytest.mark.parametrize("turn", [by_select, by_slice, a_time_step])
def test_a_loop_whose_turns_are_the_steps_is_found(tmp_path: Path, turn: Turn) -> None:
    [seen] = ask(RULE, one_turn_per_step(tmp_path, turn))

    assert "each call is a step of its own" in seen.message
    assert seen.evidence["rows"] == BATCH
    assert seen.edit is None


def test_training_on_one_sample_per_step_is_an_algorithm(tmp_path: Path) -> None:
    assert ask(RULE, observed(one_turn_per_step(tmp_path, by_slice), optimizer_steps=5)) == []


@pytest.mark.parametrize(("optimizer_steps", "found"), [(6, True), (7, False)])
def test_many_calls_to_a_step_of_the_optimizer_are_a_batch_taken_apart(
    tmp_path: Path, optimizer_steps: int, found: bool
) -> None:
    trace = one_turn_per_step(tmp_path, by_slice)
    facts = {"roots": (root(calls=100),), "backward_calls": 100, "optimizer_steps": optimizer_steps}

    assert bool(ask(RULE, observed(trace, **facts))) is found


@pytest.mark.parametrize(("steps", "found"), [(3, False), (4, True)])
def test_other_rows_in_a_few_steps_may_be_chance(tmp_path: Path, steps: int, found: bool) -> None:
    # of three steps and more the first one is not judged
    assert bool(ask(RULE, one_turn_per_step(tmp_path, by_slice, steps))) is found


def a_batch_from_a_sequence(built: TraceBuilder, at: int, index: int) -> None:
    built.op("aten::select", at, 2_000, **arguments(([BATCH, 4, FEATURES], "float"), 0, index))
    built.op("aten::linear", at + 4_000, 12_000, **arguments(([4, FEATURES], "float"), ([OUT, FEATURES], "float")))


@pytest.mark.parametrize(("name", "found"), [("Classifier", False), ("MinimalCell", True)])
def test_a_root_module_that_is_a_cell_is_known_by_its_name(tmp_path: Path, name: str, found: bool) -> None:
    trace = observed(one_turn_per_step(tmp_path, a_batch_from_a_sequence), roots=(root(name),))

    assert bool(ask(RULE, trace)) is found


def test_rows_so_few_that_they_are_no_batch_are_left_in_peace(tmp_path: Path) -> None:
    def of_eight(built: TraceBuilder, at: int, index: int) -> None:
        built.op("aten::slice", at, 2_000, **arguments(([8, FEATURES], "float"), 0, index % 8, index % 8 + 1, 1))
        built.op("aten::linear", at + 4_000, 12_000, **LINEAR)

    assert ask(RULE, one_turn_per_step(tmp_path, of_eight)) == []
