"""What an op was called with, and how much it has to multiply."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.operands import Operand, operands, tensors
from profiler_doctor.analyzer.measures.share import profiler_ns_per_op, rows_in_window, share
from profiler_doctor.analyzer.measures.work import multiplications_in
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder


def test_tensors_numbers_and_lists_are_told_apart(tmp_path: Path) -> None:
    built = TraceBuilder().op(
        "aten::conv2d",
        0,
        1_000,
        **{
            "Input Dims": [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [[2, 2], [3, 3]]],
            "Input type": ["float", "c10::Half", "double", "ScalarList", "TensorList"],
            "Input Strides": [[192, 64, 8, 1], [27, 9, 3, 1], [], [], [[2, 1], [3, 1]]],
            "Concrete Inputs": ["", "", "0.5", "[1, 1]", ""],
        },
    )

    trace = built.trace(tmp_path)

    image, weight, number, stride, several = operands(trace, 0)
    assert image == Operand((2, 3, 8, 8), "float", (192, 64, 8, 1), "")
    assert (image.size, image.bytes, weight.bytes) == (384, 1536, 216)
    assert (number.dims, number.type, number.value) == ((), "double", "0.5")
    assert (stride.dims, stride.value) == ((), "[1, 1]")
    assert (several.dims, several.strides) == ((), None)
    assert tensors(trace, 0) == (image, weight)


def test_a_shape_that_no_machine_could_hold_is_none(tmp_path: Path) -> None:
    dims = {"Input Dims": [[1 << 40, 1 << 8], [1 << 40, 1 << 7]], "Input type": ["float", "float"]}
    trace = TraceBuilder().op("aten::add", 0, 9, **dims).trace(tmp_path)

    assert [operand.dims for operand in operands(trace, 0)] == [(), (1 << 40, 1 << 7)]


def test_an_op_without_shapes_has_no_operands(tmp_path: Path) -> None:
    assert operands(TraceBuilder().op("aten::mm", 0, 1_000).trace(tmp_path), 0) == ()


def test_a_number_where_a_list_belongs_is_passed_over(tmp_path: Path) -> None:
    built = TraceBuilder().op("aten::mm", 0, 1_000, **{"Input Dims": [[2, 3]], "Input type": 10**9})

    [operand] = operands(built.trace(tmp_path), 0)

    assert operand == Operand((2, 3), "", None, "")


def test_a_convolutions_groups_follow_from_its_shapes(tmp_path: Path) -> None:
    built = TraceBuilder()
    for place, (weight, name) in enumerate(
        [([16, 8, 3, 3], "aten::conv2d"), ([16, 2, 3, 3], "aten::conv2d"), ([8, 4, 2, 2], "aten::conv_transpose2d")]
    ):
        built.op(name, place * 10_000, 5_000, **arguments(([1, 8, 9, 9], "float"), (weight, "float")))

    dense, grouped, transposed = convolutions(built.trace(tmp_path))

    assert [dense.groups, grouped.groups] == [1, 4]
    assert [dense.transposed, transposed.transposed] == [False, True]
    assert dense.channels == 8


def test_multiplications_are_those_of_the_textbook(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op("aten::linear", 0, 9_000)
    built.op("aten::addmm", 1_000, 5_000, **arguments(([7], "float"), ([3, 5], "float"), ([5, 7], "float")))
    built.op("aten::bmm", 10_000, 5_000, **arguments(([2, 3, 5], "float"), ([2, 5, 7], "float")))
    image, weight = ([1, 4, 8, 8], "float"), ([16, 4, 3, 3], "float")
    built.op("aten::conv2d", 20_000, 5_000, **arguments(image, weight, "", "[2, 2]", "[1, 1]", "[1, 1]", "1"))
    built.op("aten::relu", 30_000, 5_000, **arguments(image))

    found = multiplications_in(built.trace(tmp_path), [0, 2, 3, 4])

    # 3·5·7; 2·3·5·7; a quarter of 8·8 places, each 16·4·3·3; none
    assert found.tolist() == [105, 210, 16 * 576, 0]


def test_a_share_counts_nested_ops_once_and_only_inside_of_the_window(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1_000).step(1, 1_000, 1_000).step(2, 2_000, 1_000)
    for start in (0, 1_000, 2_000):
        built.op("outer", start + 100, 400).op("inner", start + 200, 100)
    trace = built.trace(tmp_path)
    rows = trace.rows("cpu_op")

    assert share(trace, rows) == 0.4
    assert share(trace, rows[1:2]) == 0.0  # in the first step, which is not judged
    assert len(rows_in_window(trace, rows)) == 4


def test_a_share_of_gpu_work_is_that_of_the_ops_that_launched_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 100_000)
    built.op("aten::conv2d", 0, 10_000).launch("a", (2_000, 1_000), (5_000, 30_000))
    built.op("aten::mm", 20_000, 10_000).launch("b", (22_000, 1_000), (35_000, 10_000))
    trace = built.trace(tmp_path)

    assert share(trace, trace.rows_named("aten::conv2d".__eq__, ("cpu_op",))) == 0.75
    assert share(trace, np.empty(0, np.int64)) == 0.0


def test_what_recording_an_op_cost_is_the_difference_spread_over_the_ops(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1_000_000).step(1, 1_000_000, 1_000_000)
    for place in range(18):
        built.op("aten::mm", place * 100_000 + 5_000, 50_000)
    trace = built.trace(tmp_path)

    timed = observed(trace, step_ns=(900_000, 900_000), profiled_step_ns=(1_000_000, 1_000_000))

    assert profiler_ns_per_op(timed) == 2 * 100_000 / 20
    assert profiler_ns_per_op(trace) == 0.0
