"""MEM001: memory is still being asked of the driver long after the program is warm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.alloc_in_steady_state import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000


def steps(count: int, allocating: Iterable[int], call: str = "cudaMalloc", taken_ns: int = 100_000) -> TraceBuilder:
    """Steps of 1 ms with one kernel each; in the allocating ones a call before it."""
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS)
        if step in allocating:
            built.op("aten::empty", start + 90_000, taken_ns + 20_000).call(call, start + 100_000, taken_ns)
        built.launch("kernel", (start + 300_000, 2_000), (start + 305_000, 100_000))
    return built


@pytest.mark.parametrize("call", ["cudaMalloc", "hipMalloc", "cudaHostAlloc", "cuMemCreate", "hipFree"])
def test_an_allocation_in_every_step_is_found_with_what_it_takes(tmp_path: Path, call: str) -> None:
    trace = steps(4, range(4), call).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["calls"], seen.evidence["time_ns"], seen.evidence["steps"]) == ({call: 3}, 300_000, 3)
    assert seen.where.op == "aten::empty"
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 98_000  # each call keeps 2 µs, and the host sets the pace


def test_a_free_that_waits_for_the_device_no_longer_waits(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(4):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch("kernel", (start + 10_000, 2_000), (start + 15_000, 500_000))
        built.call("cudaFree", start + 20_000, 497_000)

    trace = built.trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    # a free keeps 2 µs, so the host launches every 505 µs, the last kernel at 1020, which runs from 1025 to 1525 µs
    assert stake_of(trace, [seen.edit]).ns_per_step == (3_000_000 - 1_525_000) // 3


@pytest.mark.parametrize("allocating", [[0], [1], [0, 1], []], ids=str)
def test_what_the_first_steps_ask_for_is_kept(tmp_path: Path, allocating: list[int]) -> None:
    assert ask(RULE, steps(4, allocating).trace(tmp_path)) == []


@pytest.mark.parametrize(("allocating", "found"), [([2, 4, 6], False), ([1, 2, 4, 6], True)])
def test_half_of_the_warm_steps_must_allocate(tmp_path: Path, allocating: list[int], found: bool) -> None:
    assert bool(ask(RULE, steps(9, allocating).trace(tmp_path))) is found


def test_the_capture_of_a_graph_may_allocate(tmp_path: Path) -> None:
    built = steps(4, [2, 3])
    for step in (2, 3):
        built.call("cudaStreamBeginCapture", step * STEP_NS + 50_000, 5_000)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_asking_for_an_address_allocates_nothing(tmp_path: Path) -> None:
    assert ask(RULE, steps(4, range(4), "cudaHostGetDevicePointer").trace(tmp_path)) == []


def test_a_loader_s_thread_may_pin_its_batches(tmp_path: Path) -> None:
    built = steps(4, [])
    built.tid = 2
    for step in range(4):
        built.call("cudaHostAlloc", step * STEP_NS + 100_000, 100_000)

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize(("taken_ns", "found"), [(4_999, False), (5_000, True)])
def test_under_half_a_percent_nothing_is_said(tmp_path: Path, taken_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps(4, range(4), taken_ns=taken_ns).trace(tmp_path))) is found
