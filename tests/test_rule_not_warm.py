"""MSR001: the recorded steps still hold start-up work, so they do not show the steady state."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.not_warm import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def steps_of(folder: Path, durations_ns: list[int]) -> Trace:
    built, start = TraceBuilder(), 0
    for number, dur in enumerate(durations_ns):
        built.step(number, start, dur)
        start += dur
    return built.trace(folder)


def test_allocations_that_fill_the_window_are_found_and_counted(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000)
    built.call("cudaMalloc", 100_000, 30_000).call("cudaFree", 200_000, 30_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert (seen.evidence["allocations"], seen.evidence["allocation_ns"]) == (2, 60_000)
    assert seen.evidence["cold_share"] == 0.06
    assert seen.grave


@pytest.mark.parametrize(("dur_ns", "found"), [(49_999, False), (50_000, True)])
def test_start_up_work_must_be_five_percent(tmp_path: Path, dur_ns: int, found: bool) -> None:
    trace = TraceBuilder().step(1, 0, 1_000_000).call("hipMalloc", 100_000, dur_ns).trace(tmp_path)

    assert bool(ask(RULE, trace)) is found


def test_allocations_in_every_step_are_no_start_up(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).call("cudaMalloc", start + 100_000, 200_000)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_launch_that_loads_its_kernel_is_start_up(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 10_000_000).launch("first", (0, 5_000), (10_000, 5_000))
    trace = built.launch("loaded", (1_000_000, 6_000_000), (7_001_000, 5_000)).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.evidence["cold_share"] == 0.6


def test_a_launch_that_waits_for_room_in_the_queue_is_not(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 10_000_000).launch("long", (0, 5_000), (10_000, 7_000_000))
    trace = built.launch("queued", (1_000_000, 6_000_000), (7_011_000, 5_000)).trace(tmp_path)

    assert ask(RULE, trace) == []


def test_compilation_in_the_window_is_found(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000)
    built.op("_compile.compile_inner (dynamo_timed)", 100_000, 500_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["cold_share"] == 0.5


@pytest.mark.parametrize(("first_ns", "found"), [(150_000, False), (151_000, True)])
def test_of_two_steps_a_slow_first_one_spoils_the_recording(tmp_path: Path, first_ns: int, found: bool) -> None:
    seen = ask(RULE, steps_of(tmp_path, [first_ns, 100_000]))

    assert [sighting.grave for sighting in seen] == ([True] if found else [])


def test_of_three_steps_a_slow_first_one_is_left_out_and_only_noted(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of(tmp_path, [400_000, 100_000, 100_000]))

    assert not seen.grave
    assert "left out" in seen.message


def test_steady_steps_are_warm(tmp_path: Path) -> None:
    assert ask(RULE, steps_of(tmp_path, [110_000, 100_000, 105_000])) == []
