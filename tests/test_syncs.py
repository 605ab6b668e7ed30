"""What a blocking call waited for: of the work launched before it the last to end, while the call lasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder


def waited_for(trace: Trace) -> list[str]:
    return [trace.events.name_of(row) if row >= 0 else "" for row in syncs(trace)["waited_for"].tolist()]


def test_a_device_wide_wait_ends_with_the_last_work(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(20, 10)).launch("b", at=(10, 5), on_gpu=(30, 40), stream=8)

    assert waited_for(builder.call("cudaDeviceSynchronize", 20, 55, 50).trace(tmp_path)) == ["b"]


def test_what_another_thread_launches_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("before", at=(0, 5), on_gpu=(20, 20)).call("cudaStreamSynchronize", 10, 60, 50)
    builder.tid = 2

    assert waited_for(builder.launch("meanwhile", at=(30, 5), on_gpu=(45, 10)).trace(tmp_path)) == ["before"]


def test_a_call_that_finds_everything_done_waits_for_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(10, 10)).call("cudaDeviceSynchronize", 30, 5, 50)

    assert waited_for(builder.trace(tmp_path)) == [""]


def test_work_from_before_the_recording_is_waited_for_too(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("unlinked", 0, 50, 99).call("cudaDeviceSynchronize", 10, 45, 50)

    assert waited_for(builder.trace(tmp_path)) == ["unlinked"]


def test_the_drivers_word_narrows_it_to_a_stream(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("mine", at=(0, 5), on_gpu=(20, 10), stream=7)
    builder.launch("other", at=(8, 5), on_gpu=(20, 20), stream=9).call("cudaStreamSynchronize", 15, 40, 50)
    told = {"cuda_sync_kind": "Stream Sync", "stream": 7, "correlation": 50, "device": 0}
    trace = builder.event("cuda_sync", "Stream Sync", 15, 40, pid=0, tid=7, args=told).trace(tmp_path)

    assert syncs(trace)["stream"].tolist() == [7]
    assert waited_for(trace) == ["mine"]


def test_an_event_is_reached_before_what_was_launched_after_it(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("before", at=(0, 5), on_gpu=(20, 10)).call("cudaEventRecord", 6, 1, 40)
    builder.launch("after", at=(8, 5), on_gpu=(30, 10)).call("cudaEventSynchronize", 15, 40, 50)
    told = {"stream": -1, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 40, "correlation": 50}
    trace = builder.event("cuda_sync", "Event Sync", 15, 40, pid=0, tid=7, args=told).trace(tmp_path)

    assert waited_for(trace) == ["before"]


def test_stream_minus_one_as_an_unsigned_number_means_the_whole_device(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(20, 10)).call("cudaDeviceSynchronize", 10, 30, 50)
    told = {"cuda_sync_kind": "Context Sync", "stream": 4294967295, "correlation": 50}
    trace = builder.event("cuda_sync", "Context Sync", 10, 30, pid=0, tid=7, args=told).trace(tmp_path)

    assert syncs(trace)["stream"].tolist() == [-1]
    assert waited_for(trace) == ["a"]


def test_a_blocking_copy_waits_for_its_own_bytes(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("k", at=(0, 5), on_gpu=(20, 50), stream=9)
    builder.launch("Memcpy HtoD (Host -> Device)", at=(10, 80), on_gpu=(15, 10), api="hipMemcpyWithStream")

    assert waited_for(builder.trace(tmp_path)) == ["Memcpy HtoD (Host -> Device)"]


@pytest.mark.parametrize("name", ["tracelens_h100_qwen05b", "hta_gp100_gpu_annotation", "param_dlrm_8ranks/rank1"])
def test_real_waits_are_those_of_a_plain_search(shared: Path, name: str) -> None:
    """For calls of which the driver says nothing: the latest end within the call among work launched before it."""
    path = shared / "traces" / f"{name}.json.gz"
    events, _ = plain.load(path)
    calls = [event for event in events if event.get("ph") == "X" and plain.category(event) in plain.CALLS]
    starting = [event for event in calls if "Launch" in event["name"] or "Mem" in event["name"]]
    launched = {event["args"]["correlation"]: plain.ns(event["ts"]) for event in starting}
    work = [event for event in events if event.get("ph") == "X" and plain.category(event) in plain.ON_DEVICE]
    table = syncs(read(path))
    table = table[table["synchronize"] & (table["stream"] < 0)]

    assert len(table)
    for row, found in zip(table["row"].tolist(), table["waited_for"].tolist(), strict=True):
        start = plain.ns(events[row]["ts"])
        end = start + plain.ns(events[row]["dur"])
        ends = {
            plain.ns(event["ts"]) + plain.ns(event["dur"])
            for event in work
            if launched.get(event["args"]["correlation"], 0) < start
        }
        within = [at for at in ends if start < at <= end]
        assert (plain.ns(events[found]["ts"]) + plain.ns(events[found]["dur"]) if found >= 0 else None) == max(
            within, default=None
        )
