"""CPY005: data leaves the GPU and comes back in the same step."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.round_trip import RULE
from tests.asking import ask
from tests.told import Told
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000
BACK, THERE = "Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pageable -> Device)"


def steps(count: int, returning: range = range(99), sizes: tuple[int, int] = (4096, 4096)) -> TraceBuilder:
    """Steps of 1 ms: a kernel of 300 µs, its result to the host, and in some steps as much back before the next one."""
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch("detect", (start + 5_000, 2_000), (start + 10_000, 300_000))
        built.op("aten::copy_", start + 9_000, 310_000)
        built.launch(BACK, (start + 10_000, 305_000), (start + 311_000, 2_000), bytes=sizes[0])
        if step in returning:
            built.op("aten::sort", start + 330_000, 100_000).op("aten::copy_", start + 440_000, 20_000)
            built.launch(THERE, (start + 442_000, 5_000), (start + 445_000, 2_000), bytes=sizes[1])
        built.launch("select", (start + 500_000, 2_000), (start + 505_000, 50_000))
    return built


def test_what_leaves_and_comes_back_in_three_steps_is_found_with_what_both_copies_cost(tmp_path: Path) -> None:
    trace = steps(4).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["trips"], seen.evidence["bytes"], seen.evidence["steps"]) == (3, 4096, 3)
    assert seen.where.op == "aten::copy_"
    assert seen.edit is not None
    # both ops go, 310 and 20 µs; the GPU's 350 µs of kernels are done before the host is
    assert stake_of(trace, [seen.edit]).ns_per_step == 330_000


@pytest.mark.parametrize("returning", [range(2), range(2, 4)])
def test_fewer_steps_may_be_chance(tmp_path: Path, returning: range) -> None:
    assert ask(RULE, steps(4, returning).trace(tmp_path)) == []


def test_another_size_is_another_tensor(tmp_path: Path) -> None:
    assert ask(RULE, steps(4, sizes=(4096, 8192)).trace(tmp_path)) == []


@pytest.mark.parametrize(("size", "found"), [(255, False), (256, True)])
def test_small_copies_are_often_equal_in_size(tmp_path: Path, size: int, found: bool) -> None:
    assert bool(ask(RULE, steps(4, sizes=(size, size)).trace(tmp_path))) is found


def test_input_before_the_result_is_no_way_back(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(4):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch(THERE, (start + 1_000, 2_000), (start + 4_000, 2_000), bytes=4096)
        built.launch(BACK, (start + 20_000, 300_000), (start + 310_000, 2_000), bytes=4096)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_the_way_back_from_elsewhere_in_the_program_is_another_pair(tmp_path: Path) -> None:
    built = steps(4)
    for step in range(4):
        name = f"model.py({10 + step}): refine"
        built.frame(name, step * STEP_NS + 430_000, 60_000)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_reading_a_number_is_no_trip(tmp_path: Path) -> None:
    built = steps(4)
    for event in built.events:
        if event["name"] == "aten::copy_" and event["dur"] == "@310.000@":
            event["name"] = "aten::item"

    assert ask(RULE, built.trace(tmp_path)) == []


def told(folder: Path, sort: tuple[tuple[int, ...], tuple[int, ...]], sent: int) -> Trace:
    """As `steps(4)`, with identities: the copy writes 1 and 2 is its source on the GPU; what comes back is `sent`."""
    seen = Told()
    for step in range(4):
        start = step * STEP_NS
        seen.op(start + 9_000, (1, 2))
        seen.op(start + 330_000, *sort)
        seen.op(start + 440_000, (3, sent))
    return seen.trace(folder, steps(4))


def test_what_is_worked_out_of_the_fetched_data_is_certain(tmp_path: Path) -> None:
    [seen] = ask(RULE, told(tmp_path, ((1,), (4,)), 4))

    assert seen.evidence["certain"] is True


def test_what_another_op_made_of_other_data_is_no_round_trip(tmp_path: Path) -> None:
    assert ask(RULE, told(tmp_path, ((5,), (4,)), 4)) == []


def test_what_no_recorded_op_made_may_have_come_by_way_of_numpy(tmp_path: Path) -> None:
    [seen] = ask(RULE, told(tmp_path, ((1,), (4,)), 6))

    assert seen.evidence["certain"] is False
