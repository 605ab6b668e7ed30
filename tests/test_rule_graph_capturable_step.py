"""LCH003: every step launches the same work, and could be launched as one graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.graph_capturable_step import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000
KERNELS = 12


def steps(count: int, amid: Callable[[TraceBuilder, int, int], object] = lambda *_: None) -> TraceBuilder:
    """Steps of 1 ms; each launches 12 kernels of 4 µs, one every 50 µs, each 3 µs after its launch call of 5 µs.

    `amid(built, step, now)` adds what happens in each step after its sixth launch.
    """
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS)
        for place in range(KERNELS):
            at = start + 10_000 + place * 50_000
            built.op("aten::mm", at - 2_000, 10_000, **{"Input Dims": [[8, 8], [8, 8]]})
            built.launch(f"kernel_{place}", (at, 5_000), (at + 8_000, 4_000), grid=[8, 1, 1])
            if place == 5:
                amid(built, step, at + 20_000)
    return built


def test_three_equal_steps_are_found_with_what_one_graph_is_worth(tmp_path: Path) -> None:
    trace = steps(3).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["steps"], seen.evidence["kernels"]) == (3, 12)
    assert seen.where.op == "aten::mm"
    assert seen.edit is not None
    # the two judged steps together: 24 kernels of 4 µs with 23 gaps of 1 µs instead of 2 ms
    assert stake_of(trace, [seen.edit]).ns_per_step == (2_000_000 - (24 * 4_000 + 23 * 1_000)) // 2


def test_two_equal_steps_prove_nothing(tmp_path: Path) -> None:
    assert ask(RULE, steps(2).trace(tmp_path)) == []


def test_a_step_that_is_different_breaks_the_row(tmp_path: Path) -> None:
    def one_more(built: TraceBuilder, step: int, now: int) -> None:
        if step == 1:
            built.launch("extra", (now, 5_000), (now + 8_000, 4_000))

    assert ask(RULE, steps(3, one_more).trace(tmp_path)) == []


def test_a_warm_up_step_that_is_different_does_not_matter(tmp_path: Path) -> None:
    def one_more(built: TraceBuilder, step: int, now: int) -> None:
        if step == 0:
            built.launch("extra", (now, 5_000), (now + 8_000, 4_000))

    [seen] = ask(RULE, steps(4, one_more).trace(tmp_path))

    assert seen.evidence["steps"] == 3


@pytest.mark.parametrize("grid", [True, False], ids=["grid", "shape"])
def test_steps_over_other_shapes_are_not_the_same(tmp_path: Path, grid: bool) -> None:
    built = steps(3)
    changed = next(event for event in built.events if event["cat"] == ("kernel" if grid else "cpu_op"))
    changed["args"] |= {"grid": [9, 1, 1]} if grid else {"Input Dims": [[9, 8], [8, 8]]}

    assert ask(RULE, built.trace(tmp_path)) == []


def read_back(built: TraceBuilder, _: int, now: int) -> None:
    built.call("cudaStreamSynchronize", now, 3_000)


def allocate(built: TraceBuilder, _: int, now: int) -> None:
    built.call("cudaMalloc", now, 3_000)


def copy_pageable(built: TraceBuilder, _: int, now: int) -> None:
    built.launch("Memcpy HtoD (Pageable -> Device)", (now, 5_000), (now + 6_000, 2_000), bytes=64)


def launch_graph(built: TraceBuilder, _: int, now: int) -> None:
    built.launch("inner", (now, 5_000), (now + 8_000, 4_000), api="cudaGraphLaunch")


def wait_for_event(built: TraceBuilder, _: int, now: int) -> None:
    built.call("cudaEventSynchronize", now, 55_000)


@pytest.mark.parametrize("amid", [read_back, allocate, copy_pageable, launch_graph, wait_for_event])
def test_steps_that_no_graph_could_hold_are_not_named(
    tmp_path: Path, amid: Callable[[TraceBuilder, int, int], object]
) -> None:
    assert ask(RULE, steps(3, amid).trace(tmp_path)) == []


def test_an_event_that_was_over_long_ago_is_in_nobody_s_way(tmp_path: Path) -> None:
    def look(built: TraceBuilder, _: int, now: int) -> None:
        built.call("cudaEventSynchronize", now, 3_000)

    assert len(ask(RULE, steps(3, look).trace(tmp_path))) == 1


def test_a_read_after_the_last_launch_is_outside_of_the_graph(tmp_path: Path) -> None:
    built = steps(3)
    for step in range(3):
        built.call("cudaDeviceSynchronize", step * STEP_NS + 900_000, 5_000)

    assert len(ask(RULE, built.trace(tmp_path))) == 1


def test_steps_of_a_few_kernels_have_little_to_win(tmp_path: Path) -> None:
    assert ask(RULE, steps(3).trace(tmp_path), kernels=13) == []


def test_a_gpu_that_hardly_waits_for_the_host_needs_no_graph(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(3):
        built.step(step, step * STEP_NS, STEP_NS)
        for place in range(KERNELS):
            at = step * STEP_NS + 10_000 + place * 8_000
            built.launch("kernel", (at, 5_000), (step * STEP_NS + 20_000 + place * 80_000, 79_000))

    # of the 2 ms judged the GPU is busy for 24 times 79 µs: whatever it waits for is under a tenth
    assert ask(RULE, built.trace(tmp_path)) == []
