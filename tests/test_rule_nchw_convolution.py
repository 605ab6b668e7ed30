"""LAY004: dense convolutions run channel by channel, on a device whose library prefers the channels side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.nchw_convolution import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

H100 = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}
NHWC = [16 * 8 * 8, 1, 8 * 16, 16]


def convolution(channels: int = 16, kind: str = "float", groups: int = 1, **more: Any) -> dict[str, Any]:
    """A 3×3 convolution over a batch of 2 with 8×8 pixels, as many channels out as in."""
    weight = ([channels, channels // groups, 3, 3], kind)
    return arguments(([2, channels, 8, 8], kind), weight, "", "[1, 1]", "[1, 1]", "[1, 1]", str(groups), **more)


def steps_of_1_ms(folder: Path, convolution_ns: int, args: dict[str, Any]) -> Trace:
    """Four steps on a CPU; each begins with one convolution."""
    built = TraceBuilder()
    for number in range(4):
        built.step(number, number * 1_000_000, 1_000_000)
        built.op("aten::conv2d", number * 1_000_000 + 1_000, convolution_ns, **args)
        built.op("aten::mkldnn_convolution", number * 1_000_000 + 2_000, convolution_ns - 2_000, **args)
    return built.trace(folder)


def test_convolutions_over_contiguous_nchw_are_found_with_their_share_of_the_step(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution()))

    # three judged steps of 1 ms, 400 µs each; the inner op is part of the outer one
    assert seen.evidence["share"] == pytest.approx(0.4)
    assert seen.evidence["convolutions"] == 3
    assert seen.where.op == "aten::conv2d"
    assert seen.intervals_ns[0] == (1_001_000, 1_401_000)
    assert seen.edit is None
    assert "GPU" not in seen.message


@pytest.mark.parametrize(("convolution_ns", "found"), [(99_000, False), (101_000, True)])
def test_it_speaks_from_a_tenth_of_the_step_on(tmp_path: Path, convolution_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, convolution_ns, convolution()))) is found


@pytest.mark.parametrize(("channels", "found"), [(7, False), (8, True)])
def test_few_channels_side_by_side_are_nothing(tmp_path: Path, channels: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution(channels)))) is found


def test_channels_last_inputs_are_left_in_peace(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution(strides=[NHWC]))) == []


def test_a_channels_last_weight_decides_as_the_library_does(tmp_path: Path) -> None:
    nchw, weight_in_nhwc = [1024, 64, 8, 1], [144, 1, 48, 16]

    assert ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution(strides=[nchw, weight_in_nhwc]))) == []


@pytest.mark.parametrize("groups", [2, 16])
def test_grouped_and_depthwise_convolutions_lose_by_it(tmp_path: Path, groups: int) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution(groups=groups))) == []


def test_float64_has_no_kernels_in_that_library(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, 400_000, convolution(kind="double"))) == []


def test_the_backward_pass_counts_to_the_share(tmp_path: Path) -> None:
    built = TraceBuilder()
    image, weight = ([2, 16, 8, 8], "float"), ([16, 16, 3, 3], "float")
    for start in (0, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::conv2d", start, 60_000, **convolution())
        built.op("aten::convolution_backward", start + 200_000, 140_000, **arguments(image, image, weight))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["share"] == pytest.approx(0.2)


def on_a_gpu(folder: Path, device: dict[str, Any], kind: str) -> Trace:
    built = TraceBuilder(devices=[device])
    for number in range(4):
        built.step(number, number * 1_000_000, 1_000_000)
        built.op("aten::cudnn_convolution", number * 1_000_000, 50_000, **convolution(kind=kind))
        built.launch("conv_kernel", (number * 1_000_000 + 10_000, 4_000), (number * 1_000_000 + 20_000, 300_000))
    return built.trace(folder)


def test_on_tensor_cores_the_share_is_of_the_gpus_work(tmp_path: Path) -> None:
    [seen] = ask(RULE, on_a_gpu(tmp_path, H100, "float"))

    assert seen.evidence["share"] == pytest.approx(1.0)
    assert "GPU's work" in seen.message


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ({"id": 0, "name": "Tesla V100", "computeMajor": 7, "computeMinor": 0}, "float"),
        ({"id": 0, "name": "AMD Instinct MI300X"}, "float"),
        (H100, "c10::Half"),
    ],
    ids=["no TF32 on Volta", "another maker's", "halves are another rule's"],
)
def test_a_gpu_without_tensor_cores_for_the_type_is_left_in_peace(
    tmp_path: Path, device: dict[str, Any], kind: str
) -> None:
    assert ask(RULE, on_a_gpu(tmp_path, device, kind)) == []
