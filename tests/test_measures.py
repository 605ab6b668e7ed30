"""The measures that rules rest on, on traces small enough to check on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import busy, gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.kernels import kernel_table
from profiler_doctor.analyzer.measures.ops import enclosing_op, inside_named, named, ops, outermost_named
from profiler_doctor.analyzer.measures.optable import op_table
from profiler_doctor.analyzer.measures.steps import step_of, steps
from profiler_doctor.analyzer.measures.totals import step_time, totals
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


def rows_named(trace: Trace, *names: str) -> list[int]:
    everything = trace.events.names_at(range(len(trace.events)))
    return [everything.index(name) for name in names]


def test_a_step_runs_to_the_next_ones_start_and_the_last_to_its_own_end(tmp_path: Path) -> None:
    table = steps(TraceBuilder().step(8, 150, 60).step(7, 0, 100).trace(tmp_path))
    assert table["name"].tolist() == ["ProfilerStep#7", "ProfilerStep#8"]
    assert table[["start_ns", "end_ns", "dur_ns", "mark_end_ns"]].to_numpy().tolist() == [
        [0, 150, 150, 100],
        [150, 210, 60, 210],
    ]


def test_marks_of_other_threads_and_of_the_gpu_are_no_steps(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 10).step(2, 10, 10)
    builder.event("user_annotation", "ProfilerStep#1", 5, 10, tid=2)
    builder.event("gpu_user_annotation", "ProfilerStep#1", 5, 10, tid=7)
    assert steps(builder.trace(tmp_path))["start_ns"].tolist() == [0, 10]


def test_host_events_belong_to_the_step_they_start_in_and_gpu_work_to_its_launchs(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 100, 100).step(2, 200, 100).op("before", 90, 20).op("inside", 199, 50)
    builder.launch("late", at=(150, 10), on_gpu=(280, 10)).gpu("unlinked", 150, 10, 99)
    trace = builder.trace(tmp_path)
    rows = rows_named(trace, "before", "inside", "late", "unlinked")
    assert step_of(trace, rows).tolist() == [-1, 0, 0, -1]


def test_ops_know_their_parent_depth_self_time_and_step(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 100).op("aten::linear", 10, 50).op("aten::addmm", 20, 30)
    trace = builder.trace(tmp_path)
    table = ops(trace).set_index("name")
    assert table["self_ns"].to_dict() == {"ProfilerStep#1": 50, "aten::linear": 20, "aten::addmm": 30}
    assert table["depth"].tolist() == [0, 1, 2]
    assert table["is_op"].tolist() == [False, True, True]
    assert table["step"].tolist() == [0, 0, 0]
    assert table.loc["aten::addmm", "parent"] == table.loc["aten::linear", "row"]


def test_the_op_around_a_moment_is_the_innermost_and_never_an_annotation(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 100).op("outer", 10, 50).op("inner", 20, 10).annotation("mine", 40, 5)
    trace = builder.trace(tmp_path)
    outer, inner = rows_named(trace, "outer", "inner")
    thread = np.full(5, trace.events.thread[outer])
    assert enclosing_op(trace, thread, np.array([5, 15, 25, 30, 42])).tolist() == [-1, outer, inner, outer, outer]


def test_what_is_inside_a_name_is_told_by_all_that_is_around_it(tmp_path: Path) -> None:
    builder = TraceBuilder().annotation("Optimizer.step#Adam.step", 0, 100).op("a", 10, 50).op("b", 20, 10)
    trace = builder.op("c", 200, 10).trace(tmp_path)
    rows = np.array(rows_named(trace, "a", "b", "c"))
    assert inside_named(trace, rows, named(r"^Optimizer\.step")).tolist() == [True, True, False]
    assert outermost_named(trace, rows, named("^[abc]$")).tolist() == [rows[0], rows[0], rows[2]]


KINDS = {
    "cudaLaunchKernel": "launch",
    "cudaLaunchKernelExC": "launch",
    "cuLaunchKernel": "launch",
    "cuLaunchKernelEx": "launch",
    "cudaLaunchCooperativeKernel": "launch",
    "hipLaunchKernel": "launch",
    "hipExtLaunchKernel": "launch",
    "hipExtModuleLaunchKernel": "launch",
    "hipModuleLaunchKernel": "launch",
    "cudaGraphLaunch": "graph_launch",
    "hipGraphLaunch": "graph_launch",
    "cudaDeviceSynchronize": "blocking",
    "cudaStreamSynchronize": "blocking",
    "hipEventSynchronize": "blocking",
    "cuCtxSynchronize": "blocking",
    "cudaMemcpy": "blocking",
    "hipMemcpy": "blocking",
    "hipMemcpyWithStream": "blocking",
    "cudaMemcpyAsync": "copy",
    "hipMemcpyAsync": "copy",
    "cuMemcpyHtoDAsync_v2": "copy",
    "cudaMemsetAsync": "memset",
    "cudaMalloc": "alloc",
    "cudaFree": "alloc",
    "cudaHostAlloc": "alloc",
    "hipMalloc": "alloc",
    "cuMemMap": "alloc",
    "cudaFuncSetAttribute": "other",
    "hipGetDevicePropertiesR0600": "other",
    "cudaStreamIsCapturing": "other",
    "cudaLaunchHostFunc": "other",
    "cudaEventRecord": "other",
    "cudaStreamWaitEvent": "other",
    "cudaMemGetInfo": "other",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_host_call_is_told_by_its_name(name: str, kind: str, tmp_path: Path) -> None:
    assert host_calls(TraceBuilder().call(name, 0, 5).trace(tmp_path))["kind"].tolist() == [kind]


def test_a_host_call_knows_its_op_by_time_on_its_own_thread(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 100).launch("gemm", at=(10, 5), on_gpu=(30, 5))
    builder.event("cuda_runtime", "cudaLaunchKernel", 20, 5, tid=2, args={"correlation": 77})
    trace = builder.trace(tmp_path)
    calls = host_calls(trace)
    assert calls["op"].tolist() == [*rows_named(trace, "aten::mm"), -1]
    assert calls["work"].tolist() == [1, 0]


def test_an_external_id_that_only_repeats_the_correlation_names_no_op(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 5)
    builder.event("cuda_runtime", "cudaLaunchKernel", 50, 5, args={"correlation": 2, "External id": 2})
    assert host_calls(builder.trace(tmp_path))["op"].tolist() == [-1]


def test_an_external_id_of_its_own_names_the_op_where_time_cannot(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 5)
    builder.event("cuda_driver", "cuLaunchKernel", 50, 5, tid=3, args={"correlation": 9, "External id": 2})
    trace = builder.trace(tmp_path)
    assert host_calls(trace)["op"].tolist() == rows_named(trace, "aten::mm")


def test_a_stream_whose_number_no_machine_has_is_unknown(tmp_path: Path) -> None:
    built = TraceBuilder().event("kernel", "gemm", 0, 5, pid=1 << 70, tid=-(1 << 63), args={"correlation": 1})
    trace = built.event("kernel", "gemm", 5, 5, pid=3, tid=7, args={"device": 1 << 62, "stream": 1 << 40}).trace(
        tmp_path
    )

    assert gpu_work(trace)[["device", "stream"]].to_numpy().tolist() == [[-1, -1], [3, 7]]


def test_gpu_work_knows_its_launch_op_and_place(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 100).gpu("alone", 500, 10, 0)
    builder.launch("gemm", at=(10, 5), on_gpu=(30, 7), stream=20, device=3)
    builder.launch("Memset (Device)", at=(20, 5), on_gpu=(40, 0), bytes=64)
    trace = builder.trace(tmp_path)
    work = gpu_work(trace)
    call, copy_call = rows_named(trace, "cudaLaunchKernel", "cudaMemsetAsync")
    assert work["name"].tolist() == ["gemm", "Memset (Device)", "alone"]
    assert work["kind"].tolist() == ["kernel", "memset", "kernel"]
    assert work["launch"].tolist() == [call, copy_call, -1]
    assert work["launch_start_ns"].tolist() == [10, 20, 0]
    assert work["op"].tolist() == [*rows_named(trace, "aten::mm") * 2, -1]
    assert work[["device", "stream"]].to_numpy().tolist() == [[3, 20], [0, 7], [0, 7]]
    assert work["bytes"].tolist() == [-1, 64, -1]


def test_all_kernels_of_a_graph_have_its_one_launch(tmp_path: Path) -> None:
    builder = TraceBuilder().call("cudaGraphLaunch", 0, 10, correlation=5)
    trace = builder.gpu("a", 20, 5, 5).gpu("b", 30, 5, 5).trace(tmp_path)
    assert gpu_work(trace)["launch"].tolist() == [0, 0]
    assert host_calls(trace)["work"].tolist() == [2]
    assert (totals(trace).launches, totals(trace).graph_launches, totals(trace).kernels) == (0, 1, 2)


def test_the_device_of_an_old_trace_is_told_by_its_process(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.event("kernel", "k", 0, 5, pid=2, tid="stream 11", args={"correlation": 1})
    assert gpu_work(builder.trace(tmp_path))[["device", "stream"]].to_numpy().tolist() == [[2, 11]]


def test_busy_time_is_a_union_and_copies_are_no_kernels(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("a", 0, 10, 1).gpu("b", 5, 10, 2, stream=8).gpu("Memcpy HtoD", 12, 8, 3, stream=9)
    table = busy(builder.gpu("c", 30, 0, 4).trace(tmp_path))
    columns = ["device", "start_ns", "end_ns", "span_ns", "busy_ns", "busy_kernels_ns", "idle_ns", "kernels"]
    assert table[columns].to_numpy().tolist() == [[0, 0, 30, 30, 20, 15, 10, 3]]


def test_copies_know_their_kind_speed_and_what_hid_them(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("k", 0, 100, 1)
    builder.gpu("Memcpy HtoD (Pageable -> Device)", 80, 40, 2, stream=8, bytes=4000)
    builder.gpu("Memcpy DtoD (Device -> Device)", 10, 20, 3, stream=8)
    table = copies(builder.trace(tmp_path)).set_index("direction")
    assert table["exposed_ns"].to_dict() == {"DtoD": 0, "HtoD": 20}
    assert table["pageable"].to_dict() == {"DtoD": False, "HtoD": True}
    assert (table.loc["HtoD", "source"], table.loc["HtoD", "target"]) == ("Pageable", "Device")
    assert table.loc["HtoD", "bytes_per_s"] == pytest.approx(1e11)
    assert np.isnan(table.loc["DtoD", "bytes_per_s"])


def test_kernels_are_listed_by_name_the_longest_first(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("a", 0, 3, 1).gpu("b", 10, 5, 2).gpu("a", 20, 7, 3).gpu("Memset (Device)", 30, 99, 4)
    table = kernel_table(builder.trace(tmp_path))
    assert table.to_numpy().tolist() == [["a", 2, 10, 3, 5.0, 7], ["b", 1, 5, 5, 5.0, 5]]


def test_ops_are_listed_with_the_device_time_they_launched_themselves(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::linear", 0, 100).op("aten::addmm", 10, 60)
    trace = builder.launch("gemm", at=(20, 5), on_gpu=(200, 33)).trace(tmp_path)
    assert op_table(trace).to_numpy().tolist() == [["aten::addmm", 1, 60, 60, 33], ["aten::linear", 1, 100, 40, 0]]


def test_the_first_of_three_steps_is_left_out_of_the_steps_time(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 900).step(2, 900, 100).step(3, 1000, 300).trace(tmp_path)
    found = step_time(trace)
    assert (found.low, found.median, found.high) == (150, 200, 250)
    assert found.basis == "2 recorded steps (profiled time, the first left out)"


def test_a_step_is_timed_without_the_profiler_where_our_capture_did(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 900).trace(tmp_path)
    timed = replace(trace, facts=Facts(step_ns=(50, 40, 60)), cache={})
    assert step_time(timed).median == 50
    assert step_time(timed).basis == "3 steps timed without a profiler"


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    found = totals(TraceBuilder().op("aten::mm", 0, 5).trace(tmp_path))
    assert (found.steps, found.step_ns.median, found.step_ns.basis) == ((), None, "no steps found")


def test_a_step_that_begins_inside_of_the_optimizers_annotation_is_no_part_of_it(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.step(0, 0, 1_000).op("aten::add_", 700, 100).annotation("Optimizer.step#SGD.step", 600, 450)
    built.step(1, 1_000, 1_000).op("aten::mm", 1_100, 300).annotation("Optimizer.step#SGD.step", 1_600, 400)

    table = ops(built.trace(tmp_path)).set_index("name")

    assert table.loc["ProfilerStep#1", "depth"] == 0
    assert table.loc["aten::mm", "self_ns"] == 300
    assert table.loc["aten::add_", "depth"] == 2


def test_steps_that_pytorch_1_8_wrote_as_ops_are_steps_and_no_ops(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.event("Operator", "ProfilerStep#1", 0, 1000, args={}).event("Operator", "aten::mm", 100, 200, args={})
    trace = builder.event("Operator", "ProfilerStep#2", 1000, 500, args={}).trace(tmp_path)

    assert Has.STEPS in trace.has
    assert steps(trace)["dur_ns"].tolist() == [1000, 500]
    assert ops(trace)[["name", "is_op"]].to_numpy().tolist() == [
        ["ProfilerStep#1", False],
        ["aten::mm", True],
        ["ProfilerStep#2", False],
    ]
