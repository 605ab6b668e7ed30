"""SYN005: every launch waits for its kernel: the program runs in a mode for debugging."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.launch_blocking_mode import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

EVERY_NS = 100_000


def blocking_launches(blocking: int, free: int = 0) -> TraceBuilder:
    """A launch every 100 µs of a kernel of 45 µs; the `blocking` first ones last 50 µs, the others 5 µs."""
    built = TraceBuilder().step(1, 0, (blocking + free) * EVERY_NS)
    for place in range(blocking + free):
        at = 10_000 + place * EVERY_NS
        built.launch("kernel", (at, 50_000 if place < blocking else 5_000), (at + 4_000, 45_000))
    return built


def synced_launches(kernel_ns: int = 40_000) -> TraceBuilder:
    """Ten launches, one every 100 µs, each followed by a call that waits for its kernel."""
    built = TraceBuilder().step(1, 0, 10 * EVERY_NS)
    for place in range(10):
        at = 10_000 + place * EVERY_NS
        built.launch("kernel", (at, 5_000), (at + 8_000, kernel_ns))
        built.call("cudaStreamSynchronize", at + 6_000, 3_000 + kernel_ns)
    return built


def test_launches_that_last_as_long_as_their_kernels_are_found(tmp_path: Path) -> None:
    trace = blocking_launches(10).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["launches"], seen.evidence["by_the_launch_itself"]) == (10, 10)
    assert seen.edit is not None
    # a launch then takes 2 µs and the host launches every 52 µs, the last time at 478; that kernel ends 49 µs later
    assert stake_of(trace, [seen.edit]).ns_per_step == 1_000_000 - (478_000 + 49_000)


def test_launches_that_the_next_call_waits_for_are_found(tmp_path: Path) -> None:
    trace = synced_launches().trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["by_the_launch_itself"], seen.evidence["by_the_next_call"]) == (0, 10)
    assert seen.edit is not None
    # the host then launches every 5 + 1 + 2 + 51 µs, the last time at 541, and is done with the step at 590 µs
    assert stake_of(trace, [seen.edit]).ns_per_step == 1_000_000 - 590_000


def test_the_variable_is_named_where_our_capture_saw_it(tmp_path: Path) -> None:
    facts = Facts(environment={"CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "4"})

    [seen] = ask(RULE, blocking_launches(10).trace(tmp_path).with_capture(facts, None))

    assert seen.evidence["environment"] == {"CUDA_LAUNCH_BLOCKING": "1"}


@pytest.mark.parametrize(("blocking", "found"), [(9, False), (10, True)])
def test_half_of_the_launches_must_wait(tmp_path: Path, blocking: int, found: bool) -> None:
    assert bool(ask(RULE, blocking_launches(blocking, 20 - blocking).trace(tmp_path))) is found


def test_a_few_launches_are_no_mode(tmp_path: Path) -> None:
    assert ask(RULE, blocking_launches(9).trace(tmp_path)) == []


def test_kernels_shorter_than_a_launch_tell_nothing(tmp_path: Path) -> None:
    assert ask(RULE, synced_launches(kernel_ns=4_999).trace(tmp_path)) == []


def test_a_wait_for_earlier_work_after_a_launch_is_no_mode(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 10 * EVERY_NS)
    for place in range(10):
        at = 10_000 + place * EVERY_NS
        built.launch("side", (at, 5_000), (at + 8_000, 30_000), stream=8)
        built.launch("main", (at + 6_000, 5_000), (at + 15_000, 60_000))
        built.call("cudaEventSynchronize", at + 12_000, 27_000)  # until the other stream's kernel is over

    assert ask(RULE, built.trace(tmp_path)) == []
