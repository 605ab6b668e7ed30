"""What a step does in whole numbers, from small traces whose numbers were counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.measures.moves import moves
from profiler_doctor.analyzer.measures.step_counts import step_counts, step_hashes
from profiler_doctor.analyzer.timeless import warped
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

NCHW, NHWC = [3072, 1024, 32, 1], [3072, 1, 96, 3]


def two_steps() -> TraceBuilder:
    """Step 0: mm 2x3 by 3x4, a read; step 1: the same mm twice."""
    product = arguments(([2, 3], "float"), ([3, 4], "float"))
    built = TraceBuilder().step(0, 0, 100).step(1, 100, 100)
    built.op("aten::mm", 10, 20, **product).op("aten::item", 40, 20).op("aten::_local_scalar_dense", 45, 10)
    return built.op("aten::mm", 110, 20, **product).op("aten::mm", 140, 20, **product)


def allocation(built: TraceBuilder, at_ns: int, size: int) -> TraceBuilder:
    args = {"Bytes": size, "Device Type": 0, "Device Id": -1, "Total Allocated": 0, "Total Reserved": 0}
    built.events.append(
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1}
        | {"ts": f"@{at_ns / 1000:.3f}@", "args": args}
    )
    return built


def test_ops_reads_and_operations_are_counted_step_by_step(tmp_path: Path) -> None:
    found = step_counts(two_steps().trace(tmp_path))

    assert found["ops"].tolist() == [3, 2]
    assert found["item_calls"].tolist() == [1, 0]
    assert found["flops"].tolist() == [2 * 2 * 3 * 4, 2 * 2 * 2 * 3 * 4]
    assert found["operand_bytes"].tolist() == [4 * (6 + 12 + 8), 2 * 4 * (6 + 12 + 8)]


def test_memory_is_counted_from_where_it_stood_when_the_step_began(tmp_path: Path) -> None:
    built = two_steps()
    for at_ns, size in ((10, 100), (20, 50), (30, -100), (110, 70), (120, -50), (130, 60), (140, -70)):
        allocation(built, at_ns, size)

    found = step_counts(built.trace(tmp_path))

    assert found["allocations"].tolist() == [2, 2]
    assert found["allocated_bytes"].tolist() == [150, 130]
    assert found["peak_bytes"].tolist() == [150, 80]
    assert found["kept_bytes"].tolist() == [50, 10]


def test_device_work_counts_in_the_step_that_launched_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 100).step(1, 100, 100).launch("gemm", at=(90, 5), on_gpu=(150, 20))
    built.launch("Memcpy HtoD (Pageable -> Device)", at=(120, 5), on_gpu=(180, 5), bytes=4096)
    built.call("cudaStreamSynchronize", 190, 5)

    found = step_counts(built.trace(tmp_path))

    assert found["launches"].tolist() == [1, 0]
    assert found["kernels"].tolist() == [1, 0]
    assert found["copied_bytes_HtoD"].tolist() == [0, 4096]
    assert found["syncs"].tolist() == [0, 1]


def test_copies_tell_whether_they_change_the_type_or_the_layout(tmp_path: Path) -> None:
    def copy(target: Any, source: Any, strides: list[list[int]]) -> dict[str, Any]:
        return dict(arguments(target, source, strides=strides))

    shape = [1, 3, 32, 32]
    built = TraceBuilder().op("aten::copy_", 0, 5, **copy((shape, "float"), (shape, "float"), [NCHW, NCHW]))
    built.op("aten::copy_", 10, 5, **copy((shape, "float"), (shape, "double"), [NCHW, NCHW]))
    built.op("aten::copy_", 20, 5, **copy((shape, "float"), (shape, "float"), [NHWC, NCHW]))
    built.op("aten::copy_", 30, 5, **copy(([4, 8], "float"), ([4, 8], "float"), [[8, 1], [0, 1]]))

    found = moves(built.trace(tmp_path))

    assert found["bytes"].tolist() == [12288, 24576, 12288, 128]
    assert found["cast"].tolist() == [False, True, False, False]
    assert found["transform"].tolist() == [False, False, True, False]


def test_a_type_or_a_layout_changes_the_signature_and_not_the_sequence(tmp_path: Path) -> None:
    def hashes(kind: str, strides: list[int]) -> tuple[str, str]:
        args = arguments(([1, 3, 32, 32], kind), strides=[strides])
        table = step_hashes(TraceBuilder().step(0, 0, 50).op("aten::relu", 5, 10, **args).trace(tmp_path))
        return str(table["op_sequence"][0]), str(table["op_signature"][0])

    plain, double, other = hashes("float", NCHW), hashes("double", NCHW), hashes("float", NHWC)

    assert plain[0] == double[0] == other[0]
    assert len({plain[1], double[1], other[1]}) == 3


def test_the_order_of_ops_is_in_the_sequence(tmp_path: Path) -> None:
    one = TraceBuilder().step(0, 0, 50).op("aten::relu", 5, 5).op("aten::add", 15, 5).trace(tmp_path)
    two = TraceBuilder().step(0, 0, 50).op("aten::add", 5, 5).op("aten::relu", 15, 5).trace(tmp_path)

    assert step_hashes(one)["op_sequence"][0] != step_hashes(two)["op_sequence"][0]


def test_no_clock_has_a_part_in_any_of_it(tmp_path: Path) -> None:
    trace = two_steps().trace(tmp_path)

    for seed in range(5):
        other = warped(trace, seed)
        assert other.events.dur_ns.tolist() != trace.events.dur_ns.tolist()
        assert step_counts(other).equals(step_counts(trace))
        assert step_hashes(other).equals(step_hashes(trace))


def test_without_steps_the_recording_is_one_window(tmp_path: Path) -> None:
    found = step_counts(TraceBuilder().op("aten::add", 0, 5).op("aten::add", 10, 5).trace(tmp_path))

    assert found["ops"].tolist() == [2]
