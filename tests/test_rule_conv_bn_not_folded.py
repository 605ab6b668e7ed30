"""FUS005: batch norms in evaluation mode run as a pass of their own after each convolution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.conv_bn_not_folded import RULE
from tests.asking import ask
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder

IMAGE, WEIGHT = ([2, 3, 8, 8], "float"), ([16, 3, 3, 3], "float")
RESULT, PER_CHANNEL = ([2, 16, 8, 8], "float"), ([16], "float")
CONVOLUTION = arguments(IMAGE, WEIGHT, "", "[1, 1]", "[1, 1]", "[1, 1]", "1")


def norm(training: bool = False, given: tuple[list[int], str] = RESULT, statistics: bool = True) -> dict[str, Any]:
    fixed: list[Any] = [PER_CHANNEL, PER_CHANNEL] if statistics else ["", ""]
    return arguments(given, PER_CHANNEL, PER_CHANNEL, *fixed, training, "0.1", "1e-05", "True")


def steps_of_1_ms(folder: Path, norm_args: dict[str, Any], between: str = "", after: str = "") -> Trace:
    """Three steps: a convolution of 300 µs, perhaps something between, and a batch norm of 200 µs."""
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::conv2d", start, 300_000, **CONVOLUTION)
        if between:
            built.op(between, start + 310_000, 5_000, **arguments(RESULT))
        built.op("aten::batch_norm", start + 400_000, 200_000, **norm_args)
        if after:
            built.op(after, start + 700_000, 5_000)
    return built.trace(folder)


def test_fixed_batch_norms_are_found_and_all_of_their_time_is_at_stake(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, norm())

    [seen] = ask(RULE, trace)
    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert "1 times per step" in seen.message
    assert seen.evidence["pairs_per_step"] == 1
    assert seen.where.op == "aten::batch_norm"
    assert len(seen.intervals_ns) == 2
    assert outcome.findings[0].stake.share == pytest.approx(0.2)


def test_a_training_batch_norm_is_never_folded(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, norm(training=True))) == []


def test_frozen_batch_norms_in_a_training_step_are_left_in_peace(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, norm(), after="autograd::engine::evaluate_function: ConvolutionBackward0")

    assert ask(RULE, trace) == []


def test_a_backward_pass_outside_of_the_recording_counts_too(tmp_path: Path) -> None:
    assert ask(RULE, observed(steps_of_1_ms(tmp_path, norm()), backward_calls=3)) == []


def test_an_op_between_them_keeps_them_apart(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, norm(), between="aten::relu")) == []


def test_a_batch_norm_of_another_width_is_not_the_convolutions(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, norm(given=([2, 32, 8, 8], "float")))) == []


def test_without_running_statistics_there_is_nothing_fixed_to_fold(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, norm(statistics=False))) == []


def test_on_a_gpu_the_batch_norms_kernels_are_at_stake(tmp_path: Path) -> None:
    built = TraceBuilder(devices=[{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}])
    for start in (0, 1_000_000, 2_000_000, 3_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::conv2d", start, 20_000, **CONVOLUTION)
        built.launch("conv", (start + 5_000, 5_000), (start + 15_000, 700_000))
        built.op("aten::batch_norm", start + 30_000, 20_000, **norm())
        built.launch("bn_fw_inf", (start + 35_000, 5_000), (start + 715_000, 200_000))
        built.call("cudaDeviceSynchronize", start + 60_000, 860_000)

    [outcome] = examine(built.trace(tmp_path), Found((RULE,))).outcomes

    assert outcome.status == "found"
    # the program waits for the GPU at the end of each step of 1 ms, 200 µs of which are the batch norm's
    assert outcome.findings[0].stake.share == pytest.approx(0.2, abs=0.05)


def trained_on_a_gpu(folder: Path, bias: Any, training: bool = True) -> Trace:
    """A convolution of 600 µs with an addition of 100 µs inside it, a batch norm of 200 µs, and its gradient."""
    conv = arguments(IMAGE, WEIGHT, bias, "[1, 1]", "[1, 1]", "[1, 1]", "1")
    built = TraceBuilder(devices=[{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}])
    built.step(1, 0, 1_000_000)
    built.op("aten::conv2d", 1_000, 40_000, **conv)
    built.op("aten::cudnn_convolution", 2_000, 18_000).launch("conv", (5_000, 5_000), (15_000, 600_000))
    built.op("aten::add_", 21_000, 18_000).launch("elementwise", (25_000, 5_000), (615_000, 100_000))
    built.op("aten::batch_norm", 50_000, 20_000, **norm(training))
    built.launch("bn_fw_tr", (55_000, 5_000), (715_000, 200_000))
    built.op("autograd::engine::evaluate_function: X", 80_000, 20_000)
    return built.call("cudaDeviceSynchronize", 120_000, 800_000).trace(folder)


def test_a_bias_that_a_training_batch_norm_takes_off_again_is_found(tmp_path: Path) -> None:
    trace = trained_on_a_gpu(tmp_path, PER_CHANNEL)

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("A bias is added after a convolution and taken off again")
    assert seen.evidence["share"] == pytest.approx(100 / 900)
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 100_000


def test_without_a_bias_or_without_training_it_is_not(tmp_path: Path) -> None:
    assert ask(RULE, trained_on_a_gpu(tmp_path, "")) == []
    assert ask(RULE, trained_on_a_gpu(tmp_path, PER_CHANNEL, training=False)) == []
