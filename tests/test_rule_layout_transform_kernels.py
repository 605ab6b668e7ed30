"""LAY001: the library reorders tensors around convolutions because they come in the wrong layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.layout_transform_kernels import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

CUDNN = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)"


def convolutions(folder: Path, count: int, transform_ns: int = 20_000, **more: str) -> Trace:
    """A step with `count` convolution ops, one every 500 µs: each launches a transform and a kernel of 180 µs."""
    built = TraceBuilder().step(1, 0, 500_000 * count)
    for start in range(0, 500_000 * count, 500_000):
        built.op(more.get("op", "aten::cudnn_convolution"), start, 40_000)
        built.launch(more.get("name", CUDNN), (start + 10_000, 5_000), (start + 20_000, transform_ns))
        built.launch("conv", (start + 25_000, 5_000), (start + 42_000, 180_000))
    return built.trace(folder)


@pytest.mark.parametrize(
    "name",
    [CUDNN, "void cudnn::ops::nhwcToNchwKernel<__half>", "batched_transpose_32x32_half", "SubTensorOpWithScalar1d"],
)
def test_transforms_around_convolutions_are_found(tmp_path: Path, name: str) -> None:
    trace = convolutions(tmp_path, count=5, name=name)

    [seen] = ask(RULE, trace)

    # 5 × 20 of 5 × 200 µs; the first launch of its op has nothing before it there, so its 5 µs are what goes
    assert (seen.evidence["transforms"], seen.evidence["time_ns"], seen.evidence["busy_ns"]) == (5, 100_000, 1_000_000)
    assert seen.evidence["exclusive_ns"] == 100_000
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 5 * 5_000


def test_a_transform_later_in_its_op_takes_the_time_inside_the_op_with_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 2_000_000)
    for start in range(0, 2_000_000, 500_000):
        built.op("aten::cudnn_convolution", start, 60_000)
        built.launch("conv", (start + 10_000, 5_000), (start + 18_000, 180_000))
        built.launch(CUDNN, (start + 35_000, 5_000), (start + 200_000, 20_000))
    trace = built.trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 4 * (20_000 + 5_000)  # from one launch's end to the other's end


def test_transposes_outside_convolutions_are_another_matter(tmp_path: Path) -> None:
    assert ask(RULE, convolutions(tmp_path, count=5, op="aten::copy_")) == []


@pytest.mark.parametrize(("count", "found"), [(3, False), (4, True)])
def test_three_transforms_are_a_patch_embedding(tmp_path: Path, count: int, found: bool) -> None:
    assert bool(ask(RULE, convolutions(tmp_path, count))) is found


@pytest.mark.parametrize(("transform_ns", "found"), [(3_600, False), (3_700, True)])
def test_transforms_must_be_two_percent_of_the_busy_time(tmp_path: Path, transform_ns: int, found: bool) -> None:
    # 3.6 of 183.6 µs are 1.96 %, 3.7 of 183.7 are 2.01 %
    assert bool(ask(RULE, convolutions(tmp_path, count=4, transform_ns=transform_ns))) is found
