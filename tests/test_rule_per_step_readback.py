"""SYN004: every step waits until its results have reached the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.per_step_readback import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000
PAGEABLE = "Memcpy DtoH (Device -> Pageable)"


def steps(count: int, reading: int, waited_ns: int = 400_000, back: str = PAGEABLE) -> TraceBuilder:
    """Steps of 1 ms, each a kernel of 400 µs and one of 100 µs; the last `reading` of them copy to the host between."""
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch("long", (start + 10_000, 5_000), (start + 20_000, 400_000))
        if step >= count - reading:
            for depth, name in enumerate(("aten::to", "aten::_to_copy", "aten::copy_")):
                built.op(name, start + 20_000 + depth * 100, 420_000 - depth * 200)
            built.launch(back, (start + 22_000, waited_ns), (start + 421_500, 500), bytes=4096)
        built.launch("short", (start + 500_000, 5_000), (start + 510_000, 100_000))
    return built


def test_a_copy_to_the_host_in_every_step_is_found_with_what_the_wait_is_worth(tmp_path: Path) -> None:
    trace = steps(1, 1).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["readbacks"], seen.evidence["waited_ns"], seen.evidence["bytes"]) == (1, 400_000, 4096)
    assert seen.where.op == "aten::to"
    assert (seen.evidence["last_of_its_step"], "one step later" in seen.message) == (0, False)
    assert seen.edit is not None
    # the copy call keeps 2 µs of its 400, and the host is done with the step 398 µs earlier
    assert stake_of(trace, [seen.edit]).ns_per_step == 398_000


def test_rocm_s_blocking_copy_is_found(tmp_path: Path) -> None:
    built = steps(1, 1, back="Memcpy DtoH (Device -> Host)")
    for event in built.events:
        if event["name"] == "cudaMemcpyAsync":
            event["name"] = "hipMemcpyWithStream"

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["waited_ns"] == 400_000


def test_a_copy_now_and_then_is_none_per_step(tmp_path: Path) -> None:
    assert ask(RULE, steps(4, reading=2).trace(tmp_path)) == []  # 2 in the 3 steps that count
    assert len(ask(RULE, steps(4, reading=3).trace(tmp_path))) == 1


@pytest.mark.parametrize(("waited_ns", "found"), [(100_000, False), (100_001, True)])
def test_a_copy_that_hardly_waits_is_not_mentioned(tmp_path: Path, waited_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps(1, 1, waited_ns).trace(tmp_path))) is found


def test_a_copy_into_pinned_memory_that_nobody_waits_for_is_healthy(tmp_path: Path) -> None:
    assert ask(RULE, steps(1, 1, 5_000, "Memcpy DtoH (Device -> Pinned)").trace(tmp_path)) == []


def test_reading_a_number_is_another_rule_s(tmp_path: Path) -> None:
    built = steps(1, 1)
    for event in built.events:
        event["name"] = event["name"].replace("aten::to", "aten::item")

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_gpu_that_is_always_busy_loses_nothing(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(4):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch("long", (start + 1_000, 1_000), (start + 4_000, 990_000))
        built.op("aten::copy_", start + 3_000, 995_000)
        built.launch(PAGEABLE, (start + 3_500, 993_000), (start + 995_000, 500), bytes=4096)
    trace = built.trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["last_of_its_step"], "one step later" in seen.message) == (3, True)
    assert seen.edit is not None
    share = stake_of(trace, [seen.edit]).share
    # a step holds 990.5 µs of the GPU's work, and cannot be shorter
    assert share is not None
    assert share < 0.01
