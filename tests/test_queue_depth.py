"""How much work waits for a device: on a trace that fits on paper, and against a plain count on real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.queue_depth import queue_depth, queues
from profiler_doctor.analyzer.reading import read
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder


def test_the_queue_grows_at_a_launch_and_shrinks_when_work_begins(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(20, 10)).launch("b", at=(10, 5), on_gpu=(30, 10))
    trace = builder.launch("c", at=(60, 5), on_gpu=(70, 10)).trace(tmp_path)

    table = queue_depth(trace)

    assert table["time_ns"].tolist() == [0, 10, 20, 30, 60, 70]
    assert table["depth"].tolist() == [1, 2, 1, 0, 1, 0]


def test_a_devices_queue_is_weighted_by_time(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(20, 10)).launch("b", at=(10, 5), on_gpu=(30, 10))
    trace = builder.launch("c", at=(60, 5), on_gpu=(70, 10)).trace(tmp_path)

    row = queues(trace).iloc[0]

    assert (row["launched"], row["max_depth"], row["span_ns"]) == (3, 2, 70)
    assert row["waiting_ns"] == 20 + 20 + 10
    assert row["empty_ns"] == 30
    assert row["mean_depth"] == pytest.approx(50 / 70)


def test_devices_are_counted_apart(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", at=(0, 5), on_gpu=(20, 10), device=1)
    trace = builder.launch("b", at=(10, 5), on_gpu=(15, 10), device=0).trace(tmp_path)

    assert queue_depth(trace).to_numpy().tolist() == [[0, 10, 1], [0, 15, 0], [1, 0, 1], [1, 20, 0]]


def test_work_without_a_launch_and_work_before_its_launch_do_not_wait(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu("unlinked", 5, 10, 99).launch("early", at=(50, 5), on_gpu=(40, 20))
    trace = builder.launch("at once", at=(70, 5), on_gpu=(70, 5)).trace(tmp_path)

    assert len(queue_depth(trace)) == 0
    assert queues(trace)[["launched", "max_depth", "waiting_ns", "empty_ns"]].to_numpy().tolist() == [[2, 0, 0, 20]]


@pytest.mark.parametrize("name", ["tracelens_h100_qwen05b", "hta_rec_rank0", "tracelens_mi300_sglang_decode"])
def test_real_queues_are_as_a_plain_walk_counts_them(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    expected, deepest = _walk(path)

    table, summary = queue_depth(read(path)), queues(read(path))

    assert dict(zip(table["time_ns"], table["depth"], strict=True)) == expected
    assert summary["max_depth"].tolist() == [deepest]


def _walk(path: Path) -> tuple[dict[int, int], int]:
    events, _ = plain.load(path)
    calls = {}
    for event in events:
        if event.get("ph") == "X" and plain.category(event) in plain.CALLS:
            key = event["args"].get("correlation")
            if any(word in event["name"] for word in ("Launch", "Memcpy", "Memset")) and key is not None:
                calls.setdefault(key, plain.ns(event["ts"]))
    changes: dict[int, int] = {}
    for event in events:
        if event.get("ph") == "X" and plain.category(event) in plain.ON_DEVICE:
            launched = calls.get(event["args"].get("correlation"))
            start = plain.ns(event["ts"])
            if launched is not None and launched < start:
                changes[launched] = changes.get(launched, 0) + 1
                changes[start] = changes.get(start, 0) - 1
    depth, found = 0, {}
    for time in sorted(changes):
        if changes[time]:
            depth += changes[time]
            found[time] = depth
    return found, max(found.values())
