"""CPY002: the GPU waits for its input to arrive, although it could have been on its way earlier."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.exposed_transfer import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000
UPLOAD = "Memcpy HtoD (Pinned -> Device)"


def steps(count: int, copy_ns: int = 100_000, copying: range = range(9)) -> TraceBuilder:
    """Steps of 1 ms: a copy from 5 µs on, a kernel launched before it is over and run after it, then a wait."""
    built = TraceBuilder()
    for step in range(count):
        start = step * STEP_NS
        built.step(step, start, STEP_NS)
        if step in copying:
            built.launch(UPLOAD, (start + 1_000, 2_000), (start + 5_000, copy_ns), bytes=1_000_000)
        built.launch("kernel", (start + 4_000, 2_000), (start + 107_000, 890_000))
        built.call("cudaDeviceSynchronize", start + 10_000, 988_000)
    return built


def test_input_that_arrives_while_nothing_runs_is_found_with_what_the_overlap_is_worth(tmp_path: Path) -> None:
    trace = steps(4).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["exposed_ns"]) == (3, 300_000)
    assert seen.edit is not None
    # each kernel starts 2 µs after its launch, at 8 µs instead of 107 µs
    assert stake_of(trace, [seen.edit]).ns_per_step == 99_000


def test_a_copy_beside_the_kernel_of_the_step_before_is_healthy(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(4):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch("kernel", (start + 1_000, 2_000), (start + 5_000, 990_000))
        built.launch(UPLOAD, (start + 4_000, 2_000), (start + 8_000, 100_000), stream=20)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_gpu_that_waits_for_the_host_anyway_does_not_wait_for_the_copy(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(4):
        start = step * STEP_NS
        built.step(step, start, STEP_NS).launch(UPLOAD, (start + 1_000, 2_000), (start + 5_000, 100_000))
        built.launch("kernel", (start + 105_000, 2_000), (start + 110_000, 800_000))

    assert ask(RULE, built.trace(tmp_path)) == []


def test_an_upload_in_one_step_alone_is_a_one_off(tmp_path: Path) -> None:
    assert ask(RULE, steps(4, copying=range(2, 3)).trace(tmp_path)) == []


def test_the_first_batch_always_waits(tmp_path: Path) -> None:
    built = steps(1)
    built.events = [event for event in built.events if "ProfilerStep" not in event["name"]]

    assert ask(RULE, built.trace(tmp_path)) == []


def test_input_that_may_depend_on_the_last_output_cannot_be_sent_earlier(tmp_path: Path) -> None:
    built = steps(4)
    for step in range(4):
        start = step * STEP_NS
        built.launch("Memcpy DtoH (Device -> Pinned)", (start, 500), (start + 2_000, 500), bytes=64)

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize(("copy_ns", "found"), [(20_000, True), (19_999, False)])
def test_under_two_percent_of_the_window_nothing_is_said(tmp_path: Path, copy_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps(4, copy_ns).trace(tmp_path))) is found
