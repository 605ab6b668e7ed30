"""CPY003: many small copies go to the GPU one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.many_small_copies import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def copies(count: int, size: int = 64, direction: str = "HtoD (Pinned -> Device)") -> TraceBuilder:
    """One step of 1 ms with so many copies, each under an op of 10 µs of its own."""
    built = TraceBuilder().step(1, 0, 1_000_000).launch("kernel", (1_000, 2_000), (5_000, 3_000))
    for place in range(count):
        at = 20_000 + place * 20_000
        built.op("aten::copy_", at, 10_000)
        built.launch(f"Memcpy {direction}", (at + 3_000, 2_000), (at + 7_000, 1_000), bytes=size)
    return built


def test_eight_copies_from_one_line_are_found_with_what_seven_of_them_cost(tmp_path: Path) -> None:
    trace = copies(8).frame("model.py(12): forward", 10_000, 900_000).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["bytes"]) == (8, 512)
    assert (seen.where.file, seen.where.line) == ("model.py", 12)
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 7 * 10_000


def test_a_range_around_them_is_a_place_too(tmp_path: Path) -> None:
    assert len(ask(RULE, copies(8).annotation("inputs", 10_000, 900_000).trace(tmp_path))) == 1


def test_copies_of_an_unknown_place_are_not_said_to_have_one(tmp_path: Path) -> None:
    assert ask(RULE, copies(8).trace(tmp_path)) == []


def test_copies_from_two_lines_are_not_taken_together(tmp_path: Path) -> None:
    built = copies(14).frame("model.py(12): forward", 10_000, 140_000).frame("model.py(40): loss", 155_000, 900_000)

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize(("count", "found"), [(7, False), (8, True)])
def test_a_handful_of_inputs_is_no_flood(tmp_path: Path, count: int, found: bool) -> None:
    built = copies(count).frame("model.py(12): forward", 10_000, 900_000)

    assert bool(ask(RULE, built.trace(tmp_path))) is found


@pytest.mark.parametrize(("size", "found"), [(65_535, True), (65_536, False)])
def test_large_copies_are_worth_a_copy_each(tmp_path: Path, size: int, found: bool) -> None:
    built = copies(8, size).frame("model.py(12): forward", 10_000, 900_000)

    assert bool(ask(RULE, built.trace(tmp_path))) is found


@pytest.mark.parametrize("direction", ["DtoH (Device -> Pinned)", "DtoD (Device -> Device)"])
def test_other_directions_are_not_meant(tmp_path: Path, direction: str) -> None:
    built = copies(8, direction=direction).frame("model.py(12): forward", 10_000, 900_000)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_eight_copies_in_two_steps_are_four_per_step(tmp_path: Path) -> None:
    built = copies(8).frame("model.py(12): forward", 10_000, 1_900_000).step(2, 1_000_000, 1_000_000)

    assert ask(RULE, built.trace(tmp_path)) == []
