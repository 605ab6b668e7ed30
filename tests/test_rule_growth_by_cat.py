"""CPY007: a tensor that grows by one piece a turn is copied as a whole each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.growth_by_cat import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def cat(*shapes: list[int], axis: int = 0) -> dict[str, Any]:
    """What `torch.cat` was given, in kineto's words."""
    return {
        "Input Dims": [list(shapes), []],
        "Input type": ["TensorList", "Scalar"],
        "Concrete Inputs": ["", str(axis)],
    }


def steps_of_2_ms(folder: Path, turns: int = 20, used: str | None = None, grows: bool = True, **cats: int) -> Trace:
    """Four steps; in each a 10×8 tensor grows by 10 rows a turn, in ops of 40 µs that begin every 50 µs."""
    built = TraceBuilder()
    for start in range(0, 8_000_000, 2_000_000):
        built.step(start // 2_000_000, start, 2_000_000)
        for turn in range(turns):
            at, rows = start + 50_000 * turn, 10 * (turn + 1) if grows else 10
            built.op("aten::cat", at, cats.get("cat_ns", 40_000), **cat([rows, 8], [10, 8]))
            if used is not None:
                built.op(used, at + 42_000, 5_000, **{"Input Dims": [[rows + 10, 8]], "Input type": ["float"]})
    return built.trace(folder)


def test_a_growing_tensor_is_found_with_what_it_copies(tmp_path: Path) -> None:
    trace = steps_of_2_ms(tmp_path)

    [seen] = ask(RULE, trace)

    # in three judged steps of 2 ms 20 × 40 µs; at last 10 of 210 rows are new
    assert seen.evidence == {"turns": 21, "loops": 3, "seen": 20, "share": pytest.approx(0.4)}
    assert seen.where.op == "aten::cat"
    [outcome] = examine(trace, Found((RULE,))).outcomes
    # turn k writes 1/(k + 1) that is new, of 40 µs: 1/2 + … + 1/8 are more than the 5 µs of a call, 13 turns stay at it
    stays = sum(40_000 / (turn + 1) for turn in range(1, 8)) + 13 * 5_000
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(800_000 - stays, rel=0.001)


def test_a_tensor_that_each_turn_uses_has_to_be_whole(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_2_ms(tmp_path, used="aten::linear")) == []


@pytest.mark.parametrize(("turns", "found"), [(14, False), (15, True)])
def test_a_handful_of_turns_is_no_loop(tmp_path: Path, turns: int, found: bool) -> None:
    # it begins with one piece, so that 15 turns make 16 of them
    assert bool(ask(RULE, steps_of_2_ms(tmp_path, turns))) is found


def test_concatenations_that_do_not_build_on_each_other_are_none(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_2_ms(tmp_path, grows=False)) == []


@pytest.mark.parametrize(("cat_ns", "found"), [(1_900, False), (2_100, True)])
def test_it_speaks_from_a_fiftieth_of_the_step_on(tmp_path: Path, cat_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_2_ms(tmp_path, cat_ns=cat_ns))) is found


def growing_from_step_to_step(folder: Path, already: int) -> Trace:
    """Five steps of 100 µs, each of which adds a row to a tensor of so many rows in 50 µs."""
    built = TraceBuilder()
    for number in range(5):
        built.step(number, number * 100_000, 100_000)
        built.op("aten::cat", number * 100_000, 50_000, **cat([already + number, 8], [1, 8]))
    return built.trace(folder)


def test_a_loop_whose_turns_are_the_steps_is_told_by_how_large_the_tensor_is(tmp_path: Path) -> None:
    [seen] = ask(RULE, growing_from_step_to_step(tmp_path, already=100))

    # the last of four judged steps makes 105 rows of 104
    assert (seen.evidence["turns"], seen.evidence["seen"]) == (105, 4)
    assert seen.evidence["share"] == pytest.approx(0.5)


def test_a_tensor_that_is_small_yet_may_not_grow_for_long(tmp_path: Path) -> None:
    assert ask(RULE, growing_from_step_to_step(tmp_path, already=10)) == []


def test_caches_of_several_layers_that_grow_side_by_side_are_none(tmp_path: Path) -> None:
    built = TraceBuilder()
    for token in range(20):
        for layer in range(2):
            at = token * 100_000 + layer * 50_000
            built.op("aten::cat", at, 20_000, **cat([1, 4, 10 + token, 8], [1, 4, 1, 8], axis=2))
            taken = {"Input Dims": [[1, 4, 1, 8], [1, 4, 11 + token, 8]], "Input type": ["float", "float"]}
            built.op("aten::matmul", at + 25_000, 20_000, **taken)

    assert ask(RULE, built.trace(tmp_path)) == []
