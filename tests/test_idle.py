"""Idle time by cause, on traces made by hand."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.measures.idle import CAUSES, idle_by_cause, idle_gaps
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


def causes(trace: Trace) -> dict[str, int]:
    return {cause: time for cause, time in idle_by_cause(trace).items() if time}


def pieces(trace: Trace) -> list[tuple[str, int, int]]:
    table = idle_gaps(trace)
    return list(zip(table["cause"], table["start_ns"], table["end_ns"], strict=True))


def between(builder: TraceBuilder, at_ns: int = 800) -> TraceBuilder:
    """Add two kernels with the device idle from 200 to 1000; the second is launched at `at_ns`."""
    return builder.launch("a", at=(0, 10), on_gpu=(100, 100)).launch("b", at=(at_ns, 10), on_gpu=(1000, 100))


def test_work_launched_before_the_gap_waited_on_the_device(tmp_path: Path) -> None:
    trace = between(TraceBuilder(), at_ns=150).trace(tmp_path)
    assert causes(trace) == {"device_or_dependency": 800}


def test_a_launch_at_the_very_start_of_the_gap_waited_on_the_device(tmp_path: Path) -> None:
    assert causes(between(TraceBuilder(), at_ns=200).trace(tmp_path)) == {"device_or_dependency": 800}


def test_the_time_before_the_launch_is_python_and_after_it_latency(tmp_path: Path) -> None:
    trace = between(TraceBuilder()).trace(tmp_path)
    assert pieces(trace) == [("python", 200, 800), ("launch_latency", 800, 1000)]


def test_each_moment_has_the_first_cause_that_holds(tmp_path: Path) -> None:
    builder = (
        TraceBuilder()
        .annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 210, 200)
        .op("aten::select", 220, 30)
        .op("aten::to", 500, 250)
        .call("cudaMalloc", 510, 40)
        .call("cudaStreamSynchronize", 530, 100)
    )
    assert pieces(between(builder).trace(tmp_path)) == [
        ("python", 200, 210),
        ("dataloader", 210, 410),
        ("python", 410, 500),
        ("op_dispatch", 500, 510),
        ("alloc_call", 510, 530),
        ("blocking_call", 530, 630),
        ("op_dispatch", 630, 750),
        ("python", 750, 800),
        ("launch_latency", 800, 1000),
    ]


def test_a_call_that_began_before_the_gap_counts_from_the_gaps_start(tmp_path: Path) -> None:
    builder = TraceBuilder().call("cudaDeviceSynchronize", 50, 250)
    assert causes(between(builder).trace(tmp_path)) == {"blocking_call": 100, "python": 500, "launch_latency": 200}


def test_the_launching_thread_comes_before_all_others(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 300, 100)
    builder.event("cuda_runtime", "cudaEventSynchronize", 200, 600, tid=2, args={})
    found = causes(between(builder).trace(tmp_path))
    assert found == {"op_dispatch": 100, "blocking_call": 500, "launch_latency": 200}


def test_a_pageable_copy_to_the_host_blocks_its_asynchronous_call(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("Memcpy DtoH (Device -> Pageable)", at=(210, 500), on_gpu=(100, 100))
    builder.launch("b", at=(800, 10), on_gpu=(1000, 100))
    assert causes(builder.trace(tmp_path)) == {"blocking_call": 500, "python": 100, "launch_latency": 200}


def test_work_whose_launch_is_not_recorded_is_not_blamed_on_the_host(tmp_path: Path) -> None:
    trace = TraceBuilder().gpu("a", 0, 100, 1).gpu("b", 500, 100, 2).trace(tmp_path)
    assert causes(trace) == {"device_or_dependency": 400}


def test_overlapping_work_on_two_streams_leaves_no_gap(tmp_path: Path) -> None:
    trace = TraceBuilder().gpu("a", 0, 100, 1).gpu("b", 50, 200, 2, stream=9).gpu("c", 120, 10, 3).trace(tmp_path)
    assert pieces(trace) == []
    assert idle_by_cause(trace) == dict.fromkeys(CAUSES, 0)


def test_devices_are_idle_by_themselves(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("a", 0, 10, 1).gpu("b", 30, 10, 2)
    trace = builder.gpu("c", 5, 10, 3, device=1).gpu("d", 100, 10, 4, device=1).trace(tmp_path)
    table = idle_gaps(trace)
    assert table.groupby("device")["dur_ns"].sum().to_dict() == {0: 20, 1: 85}
    assert [trace.events.name_of(row) for row in table["ended_by"]] == ["b", "d"]


def test_work_too_short_for_the_clock_bounds_the_idle_time_and_ends_a_gap(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("first", 0, 0, 91).gpu("a", 10, 20, 92)
    trace = builder.launch("short", at=(40, 5), on_gpu=(50, 0)).gpu("last", 70, 0, 93).trace(tmp_path)
    assert pieces(trace) == [
        ("device_or_dependency", 0, 10),
        ("python", 30, 40),
        ("launch_latency", 40, 50),
        ("device_or_dependency", 50, 70),
    ]


def test_a_run_without_device_work_has_no_idle_time_at_all(tmp_path: Path) -> None:
    assert idle_by_cause(TraceBuilder().op("aten::mm", 0, 5).trace(tmp_path)) == {}
