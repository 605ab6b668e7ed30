"""MSR007: the steps differ too much from each other, or the clocks do."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.noisy_steps import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000


def recorded(folder: Path, *durations_us: int) -> Trace:
    built, start = TraceBuilder(), 0
    for number, dur in enumerate(durations_us):
        built.step(number, start * US, dur * US)
        start += dur
    return built.trace(folder)


def timed(folder: Path, *times_us: int) -> Trace:
    return observed(TraceBuilder().step(0, 0, 100 * US).trace(folder), step_ns=tuple(time * US for time in times_us))


@pytest.mark.parametrize(("off_us", "found"), [(5, False), (6, True)])
def test_a_median_distance_of_more_than_five_percent_is_noise(tmp_path: Path, off_us: int, found: bool) -> None:
    seen = ask(RULE, timed(tmp_path, 100, 100 - off_us, 100 + off_us))

    assert bool(seen) is found
    assert [sighting.evidence["spread"] for sighting in seen] == ([0.06] if found else [])


def test_a_slow_step_among_few_recorded_ones_is_noise_and_the_first_is_left_out(tmp_path: Path) -> None:
    [seen] = ask(RULE, recorded(tmp_path, 900, 100, 100, 100, 151, 100))

    assert seen.evidence["slow_steps"] == 1
    assert not seen.grave


def test_one_slow_step_in_twenty_is_nothing_unusual(tmp_path: Path) -> None:
    assert ask(RULE, timed(tmp_path, *[100] * 19, 300)) == []
    assert len(ask(RULE, timed(tmp_path, *[100] * 18, 300, 300))) == 1


def test_steady_steps_are_no_noise(tmp_path: Path) -> None:
    assert ask(RULE, recorded(tmp_path, 900, 100, 102, 99, 101)) == []


def test_two_steps_have_no_spread(tmp_path: Path) -> None:
    assert ask(RULE, recorded(tmp_path, 100, 300)) == []


def test_a_last_step_that_ends_with_its_mark_is_not_taken_for_a_fast_one(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(4):
        built.step(number, number * 100 * US, 40 * US)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_work_before_its_launch_says_that_the_clocks_disagree(tmp_path: Path) -> None:
    built = TraceBuilder().launch("early", (100 * US, 5 * US), (90 * US, 5 * US))

    [seen] = ask(RULE, built.launch("k", (200 * US, 5 * US), (210 * US, 5 * US)).trace(tmp_path))

    assert seen.evidence["early_ns"] == 10 * US
    assert seen.grave
