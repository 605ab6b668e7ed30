"""CPY004: tensors are made on the CPU only to be copied to the GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.build_on_host_then_move import RULE
from tests.asking import ask
from tests.told import Told
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000


def move(built: TraceBuilder, at: int, elements: int = 8) -> None:
    """`.to("cuda")` of so many floats, 30 µs long."""
    built.op("aten::to", at, 30_000).op("aten::_to_copy", at + 1_000, 28_000)
    built.op("aten::copy_", at + 2_000, 25_000, **{"Input Dims": [[elements], [elements]]})
    copy = "Memcpy HtoD (Pageable -> Device)"
    built.launch(copy, (at + 5_000, 20_000), (at + 10_000, 2_000), bytes=4 * elements)


def make(built: TraceBuilder, at: int, name: str = "aten::zeros", elements: int = 8) -> None:
    """A factory op of 40 µs with the op that fills what it made."""
    built.op(name, at, 40_000, **{"Input Dims": [[]], "Concrete Inputs": [f"[{elements}]"]})
    built.op("aten::fill_", at + 20_000, 10_000, **{"Input Dims": [[elements], []]})


def steps(count: int, body: Callable[[TraceBuilder, int, int], object]) -> TraceBuilder:
    """Steps of 1 ms with one kernel at their end; `body(built, step, now)` comes before it."""
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS)
        body(built, step, start + 100_000)
        built.launch("kernel", (start + 600_000, 2_000), (start + 605_000, 100_000))
    return built


def made_and_moved(built: TraceBuilder, _: int, now: int) -> None:
    make(built, now)
    move(built, now + 50_000)


@pytest.mark.parametrize("name", ["aten::zeros", "aten::randn", "aten::arange", "aten::full"])
def test_what_is_made_and_moved_in_every_step_is_found(tmp_path: Path, name: str) -> None:
    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now, name)
        move(built, now + 50_000)

    trace = steps(4, body).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["bytes"], seen.where.op) == (3, 96, name)
    assert seen.edit is not None
    # the factory (40 µs) and the copying op (25 µs of the 30) go
    assert stake_of(trace, [seen.edit]).ns_per_step == 65_000


def test_a_view_between_the_two_hides_nothing(tmp_path: Path) -> None:
    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now)
        built.op("aten::unsqueeze", now + 42_000, 5_000).op("aten::as_strided", now + 43_000, 2_000)
        move(built, now + 50_000)

    assert len(ask(RULE, steps(4, body).trace(tmp_path))) == 1


def test_real_input_is_no_factory_s(tmp_path: Path) -> None:
    assert ask(RULE, steps(4, lambda built, _, now: move(built, now)).trace(tmp_path)) == []


def test_another_number_of_elements_is_another_tensor(tmp_path: Path) -> None:
    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now, elements=9)
        move(built, now + 50_000)

    assert ask(RULE, steps(4, body).trace(tmp_path)) == []


def test_work_between_the_two_breaks_the_trail(tmp_path: Path) -> None:
    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now)
        built.op("aten::add", now + 42_000, 5_000)
        move(built, now + 50_000)

    assert ask(RULE, steps(4, body).trace(tmp_path)) == []


def test_a_factory_that_ran_on_the_gpu_made_something_else(tmp_path: Path) -> None:
    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now)
        built.launch("fill", (now + 22_000, 2_000), (now + 26_000, 2_000))
        move(built, now + 50_000)

    assert ask(RULE, steps(4, body).trace(tmp_path)) == []


@pytest.mark.parametrize(("moving", "found"), [([2], False), ([2, 3], True)])
def test_what_is_made_now_and_then_is_no_habit(tmp_path: Path, moving: list[int], found: bool) -> None:
    def body(built: TraceBuilder, step: int, now: int) -> None:
        if step in moving:
            made_and_moved(built, step, now)

    assert bool(ask(RULE, steps(5, body).trace(tmp_path))) is found


def told(folder: Path, between: str, sent: int) -> Trace:
    """`zeros` makes 1; an op far from it is given 1 and makes 2; then `sent` is copied. All in each of four steps."""
    seen = Told()

    def body(built: TraceBuilder, _: int, now: int) -> None:
        make(built, now)
        built.op(between, now + 50_000, 50_000)
        built.op("aten::ones_like", now + 150_000, 10_000)
        move(built, now + 200_000)
        seen.op(now, (), (1,))
        seen.op(now + 20_000, (1,))
        seen.op(now + 50_000, (1,), (2,))
        seen.op(now + 150_000, (1,), (4,))
        seen.op(now + 202_000, (3, sent))

    return seen.trace(folder, steps(4, body))


def test_a_tensor_is_followed_however_far_from_its_copy_it_was_made(tmp_path: Path) -> None:
    [seen] = ask(RULE, told(tmp_path, "aten::neg", sent=1))

    assert (seen.where.op, seen.evidence["copies"], seen.evidence["certain"]) == ("aten::zeros", 3, True)


def test_the_neighbour_of_a_copy_is_not_taken_for_what_it_reads(tmp_path: Path) -> None:
    assert ask(RULE, told(tmp_path, "aten::neg", sent=2)) == []


def test_what_was_written_to_in_between_holds_data(tmp_path: Path) -> None:
    assert ask(RULE, told(tmp_path, "aten::index_put_", sent=1)) == []
