"""When steps are steady, and keeping times of many of them."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture.child.steptimes import MOST, StepTimes


def times(*pairs: tuple[int, int]) -> StepTimes:
    made = StepTimes()
    for wall_ns, cpu_ns in pairs:
        made.add(wall_ns, cpu_ns)
    return made


@pytest.mark.parametrize(
    ("pairs", "steady"),
    [
        ([(100, 100), (100, 100)], False),  # two are too few
        ([(900, 900), (100, 100), (105, 105), (95, 95)], True),  # the cold step is forgotten
        ([(100, 100), (150, 150), (100, 100)], False),
        ([(100, 50), (180, 51), (300, 49)], True),  # a busy machine: only the CPU clock agrees
        ([(100, 50), (101, 90), (99, 10)], True),
    ],
)
def test_three_steps_that_agree_on_either_clock_are_steady(pairs: list[tuple[int, int]], steady: bool) -> None:
    assert times(*pairs).steady() is steady


def test_of_many_steps_the_kept_ones_are_spread_over_the_whole_run() -> None:
    made = times(*((step, step) for step in range(1, 10 * MOST + 1)))
    assert len(made) <= MOST
    assert max(made.wall_ns) > 9.9 * MOST
    gaps = {later - earlier for earlier, later in zip(made.wall_ns[5:], made.wall_ns[6:], strict=False)}
    assert gaps == {16}  # every 16th of 4,000 steps leaves 250 of at most 400


def test_the_last_none_of_them_are_none() -> None:
    assert times((1, 1), (2, 2)).last(0).wall_ns == []
    assert times((1, 1), (2, 2)).last(1).wall_ns == [2]


def test_what_a_step_spends_in_loaders_is_kept_beside_its_time() -> None:
    made = StepTimes()
    for step in range(10 * MOST):
        made.add(step, step, 2 * step)

    assert made.loading_ns == [2 * wall for wall in made.wall_ns]
    assert made.last(3).and_then(times((1, 1))).loading_ns == [2 * wall for wall in made.wall_ns[-3:]] + [-1]
