"""PYB004: the same constant is made anew several times in every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.recomputed_constants import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

RANGE = ("aten::arange", arguments("0", "512", "", ""))
OTHER = ("aten::arange", arguments("0", "256", "", ""))
COSINE = ("aten::cos", arguments(([512, 64], "float")))


def steps(folder: Path, *called: tuple[str, Any], around: str = "", only_in_last: bool = False) -> Trace:
    """Four steps of 1 ms; each op takes 20 µs."""
    built = TraceBuilder()
    for number in range(4):
        start = number * 1_000_000
        square = ([64, 64], "float")
        built.step(number, start, 1_000_000).op("aten::mm", start + 900_000, 50_000, **arguments(square, square))
        if around:
            built.op(around, start + 5_000, 800_000)
        for place, (name, given) in enumerate(called if number == 3 or not only_in_last else ()):
            built.op(name, start + 10_000 + place * 30_000, 20_000, **given)
    return built.trace(folder)


def test_a_constant_made_in_every_layer_is_found_and_all_but_the_first_are_at_stake(tmp_path: Path) -> None:
    trace = steps(tmp_path, *[RANGE] * 4)

    [seen] = ask(RULE, trace)

    assert (
        seen.message == "Constants (arange) are made anew 3 times per step with the same arguments: 6.0% of the step."
    )
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 3 * 20_000


def test_what_is_made_of_it_as_often_counts_too(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps(tmp_path, *[RANGE, COSINE] * 3))

    assert seen.evidence["names"] == ["arange", "cos"]
    assert seen.evidence["made_again"] == 3 * 4


def test_cosines_of_data_are_no_constants(tmp_path: Path) -> None:
    assert ask(RULE, steps(tmp_path, *[COSINE] * 4)) == []
    [seen] = ask(RULE, steps(tmp_path, *[RANGE] * 3, *[COSINE] * 4))
    assert seen.evidence["names"] == ["arange"]


@pytest.mark.parametrize("called", [[RANGE] * 2, [RANGE, OTHER] * 2, [("aten::zeros", RANGE[1])] * 4])
def test_twice_or_with_other_arguments_or_zeros_to_be_filled_is_healthy(tmp_path: Path, called: list[Any]) -> None:
    assert ask(RULE, steps(tmp_path, *called)) == []


def test_it_must_be_so_in_every_step(tmp_path: Path) -> None:
    assert ask(RULE, steps(tmp_path, *[RANGE] * 4, only_in_last=True)) == []


@pytest.mark.parametrize("around", ["autograd::engine::evaluate_function: X", "enumerate(DataLoader)#_X.__next__"])
def test_gradients_and_loaders_are_another_matter(tmp_path: Path, around: str) -> None:
    assert ask(RULE, steps(tmp_path, *[RANGE] * 4, around=around)) == []
