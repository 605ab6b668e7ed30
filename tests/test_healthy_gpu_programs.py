"""Programs as they should be: on none of them may any rule find anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import find
from tests.trace_builder import TraceBuilder

DEVICE = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 80_000_000_000}
PINNED, BACK = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_tensorop"
SHAPES = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}


def gemms(built: TraceBuilder, count: int, launched_ns: int, running_ns: int, each_ns: int) -> None:
    """Matrix products one behind the other, launched every 20 µs."""
    for place in range(count):
        at = launched_ns + place * 20_000
        built.op("aten::mm", at, 12_000, **SHAPES)
        built.launch(GEMM, (at + 4_000, 5_000), (running_ns + place * (each_ns + 1_000), each_ns))


def distributed_training() -> TraceBuilder:
    """Steps of 10 ms: the next batch is copied beside the forward pass, gradients travel beside the backward pass."""
    built, step_ns = TraceBuilder(devices=[DEVICE]), 10_000_000
    for step in range(6):
        start = step * step_ns
        built.step(step, start, step_ns).annotation("DistributedDataParallel.forward", start + 50_000, 700_000)
        built.launch(PINNED, (start + 60_000, 4_000), (start + 500_000, 800_000), bytes=20_000_000, stream=20)
        gemms(built, 30, start + 80_000, start + 130_000, 99_000)
        built.tid = 2
        built.op("autograd::engine::evaluate_function: MmBackward0", start + 800_000, 1_500_000)
        gemms(built, 60, start + 810_000, start + 3_140_000, 99_000)
        for bucket in range(4):
            built.op("c10d::allreduce_", start + 2_050_000 + bucket * 50_000, 20_000)
            name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
            at = (start + 2_055_000 + bucket * 50_000, 5_000)
            built.launch(name, at, (start + 4_000_000 + bucket * 1_200_000, 1_000_000), stream=30)
        built.tid = 1
        built.annotation("Optimizer.step#AdamW.step", start + 2_500_000, 60_000).op(
            "aten::_fused_adamw_", start + 2_510_000, 40_000
        )
        built.launch("multi_tensor_apply_fused_adamw", (start + 2_520_000, 5_000), (start + 9_145_000, 850_000))
    return built


def decoding_with_graphs() -> TraceBuilder:
    """Steps of 10 ms, each one launch of a captured graph; the tokens come back, and the next one follows at once."""
    built, step_ns = TraceBuilder(devices=[DEVICE]), 10_000_000
    for step in range(6):
        start, correlation = step * step_ns, 900_000 + step
        built.step(step, start, step_ns)
        for place in range(3):
            at = start + 5_000 + place * 8_000
            built.launch(PINNED, (at, 4_000), (at + 6_000, 1_000), bytes=512)
        built.call("cudaGraphLaunch", start + 32_000, 10_000, correlation)
        for place in range(99):
            built.gpu(GEMM, start + 45_000 + place * 100_000, 99_500, correlation)
        built.op("aten::to", start + 50_000, 9_930_000).op("aten::_to_copy", start + 51_000, 9_928_000)
        built.op("aten::copy_", start + 52_000, 9_926_000)
        built.launch(BACK, (start + 54_000, 4_000), (start + 9_946_000, 2_000), bytes=2048)
        built.call("cudaStreamSynchronize", start + 60_000, 9_890_000)
    return built


def serving_large_batches() -> TraceBuilder:
    """Steps of 10 ms in eager mode: the host is a step ahead of the GPU, and reads the last result at its end."""
    built, step_ns = TraceBuilder(devices=[DEVICE]), 10_000_000
    for step in range(6):
        start = step * step_ns
        built.step(step, start, step_ns)
        gemms(built, 80, start + 20_000, start + 40_000, 123_300)
        built.op("aten::item", start + 9_000_000, 990_000).op("aten::_local_scalar_dense", start + 9_001_000, 988_000)
        built.launch(BACK, (start + 9_010_000, 4_000), (start + 9_985_000, 1_000), bytes=4)
        built.call("cudaStreamSynchronize", start + 9_015_000, 972_000)
    return built


@pytest.mark.parametrize("program", [distributed_training, decoding_with_graphs, serving_large_batches])
def test_nothing_is_found_in_a_healthy_program(program: Callable[[], TraceBuilder], tmp_path: Path) -> None:
    trace = program().trace(tmp_path)

    examined = examine(trace, find("profiler_doctor.rules", Rule))

    found = {outcome.code: outcome for outcome in examined.outcomes if outcome.status in ("found", "crashed")}
    assert {code: [finding.message for finding in outcome.findings] for code, outcome in found.items()} == {}
    assert [note.message for note in examined.health] == []
