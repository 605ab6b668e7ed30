"""DST003: gradients are averaged over all ranks after every micro-batch, although the optimizer waits for several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.sync_in_accumulation import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

BATCH_NS = 1_000_000
FORWARD, UPDATE = "DistributedDataParallel.forward", "Optimizer.step#AdamW.step"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def training(
    batches: int,
    every: int,
    averages: Callable[[int], bool] = lambda _: True,
    forward: str = FORWARD,
    kernel: str = ALL_REDUCE,
) -> TraceBuilder:
    """A step of so many micro-batches of 1 ms each, an update after `every` of them.

    The backward pass has a thread of its own. Its kernels end at 400 µs; the collective of 200 µs follows on the same
    stream, then the host waits for both.
    """
    built = TraceBuilder().step(1, 0, batches * BATCH_NS)
    for batch in range(batches):
        start = batch * BATCH_NS
        built.annotation(forward, start + 10_000, 90_000)
        for place in range(4):
            at = start + 20_000 + place * 5_000
            built.launch("forward", (at, 2_000), (start + 45_000 + place * 10_000, 10_000))
        built.tid = 2
        built.op("autograd::engine::evaluate_function: MmBackward0", start + 110_000, 80_000)
        for place in range(4):
            at = start + 120_000 + place * 5_000
            built.launch("backward", (at, 2_000), (start + 130_000 + place * 67_500, 67_500))
        if averages(batch):
            built.op("c10d::allreduce_", start + 145_000, 10_000)
            built.launch(kernel, (start + 150_000, 2_000), (start + 401_500, 200_000))
        built.tid = 1
        built.call("cudaDeviceSynchronize", start + 200_000, 402_500 if averages(batch) else 201_000)
        if batch % every == every - 1:
            built.annotation(UPDATE, start + 800_000, 100_000)
            built.launch("update", (start + 810_000, 2_000), (start + 815_000, 50_000))
    return built


@pytest.mark.parametrize("forward", [FORWARD, "FullyShardedDataParallel.forward"])
def test_averages_before_the_last_micro_batch_are_found_with_what_they_take(tmp_path: Path, forward: str) -> None:
    trace = training(6, every=3, forward=forward).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["averaged_too_early"], seen.evidence["optimizer_steps"]) == (4, 2)
    assert (seen.evidence["collectives"], seen.evidence["time_ns"]) == (4, 800_000)
    assert seen.edit is not None
    # without its collective each of the four waits ends with the backward kernel, 201.5 µs earlier
    assert stake_of(trace, [seen.edit]).ns_per_step == 4 * 201_500


def test_an_update_after_every_batch_needs_every_average(tmp_path: Path) -> None:
    assert ask(RULE, training(6, every=1).trace(tmp_path)) == []


def test_averages_after_the_last_micro_batch_alone_are_healthy(tmp_path: Path) -> None:
    assert ask(RULE, training(6, every=3, averages=lambda batch: batch % 3 == 2).trace(tmp_path)) == []


def test_a_recording_that_ends_before_the_update_proves_nothing(tmp_path: Path) -> None:
    assert ask(RULE, training(3, every=5).trace(tmp_path)) == []
    assert ask(RULE, training(4, every=2, averages=lambda batch: batch > 0).trace(tmp_path)) == []


def test_what_the_program_averages_itself_is_not_meant(tmp_path: Path) -> None:
    built = training(6, every=3, averages=lambda _: False)
    for batch in range(6):
        start = batch * BATCH_NS
        built.launch(ALL_REDUCE, (start + 700_000, 2_000), (start + 705_000, 20_000))

    assert ask(RULE, built.trace(tmp_path)) == []


def test_gathering_parameters_is_no_average(tmp_path: Path) -> None:
    built = training(6, every=3, kernel="ncclDevKernel_AllGather_RING_LL")
    for event in built.events:
        event["name"] = event["name"].replace("c10d::allreduce_", "c10d::_allgather_base_")

    assert ask(RULE, built.trace(tmp_path)) == []


def test_without_a_wrapper_s_forward_call_nothing_is_said(tmp_path: Path) -> None:
    assert ask(RULE, training(6, every=3, forward="MyModel.forward").trace(tmp_path)) == []
