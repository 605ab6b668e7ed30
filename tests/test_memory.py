"""The allocators' events: per device, per step, and their peaks."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.measures.memory import memory, memory_by_step, memory_peaks
from profiler_doctor.analyzer.reading import read
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder


def with_memory(builder: TraceBuilder, at_ns: int, size: int, **more: Any) -> TraceBuilder:
    """One allocation event; more: Total Allocated, Total Reserved, Device Type, Device Id, cat."""
    category = {"cat": more.pop("cat", "cpu_instant_event")}
    args = {"Bytes": size, "Addr": 1, "Device Type": 1, "Device Id": 0, **more}
    event = {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 1, "ts": f"@{at_ns / 1000:.3f}@", "args": args}
    builder.events.append({**event, **{key: value for key, value in category.items() if value}})
    return builder


def totals(allocated: int, reserved: int) -> dict[str, int]:
    return {"Total Allocated": allocated, "Total Reserved": reserved}


def test_every_event_knows_its_device_op_and_step(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 100).op("aten::empty", 10, 20)
    with_memory(builder, 15, 512, **totals(1512, 4096))
    with_memory(builder, 90, -512, **totals(1000, 4096))
    with_memory(builder, 120, 64, **{"Device Type": 0, "Device Id": -1, **totals(64, 0)})

    table = memory(builder.trace(tmp_path))

    assert table["device"].tolist() == ["cuda:0", "cuda:0", "cpu"]
    assert table["bytes"].tolist() == [512, -512, 64]
    assert table["allocated_bytes"].tolist() == [1512, 1000, 64]
    assert table["change_bytes"].tolist() == [512, 0, 64]
    assert table["step"].tolist() == [0, 0, -1]
    assert (table["op"] >= 0).tolist() == [True, False, False]


def test_a_peak_is_what_was_held_at_once_and_names_the_op_that_reached_it(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 10, 20)
    with_memory(builder, 5, 100, **totals(1100, 4096))
    with_memory(builder, 15, 300, **totals(1400, 8192))
    with_memory(builder, 40, -100, **totals(1300, 8192))

    row = memory_peaks(builder.trace(tmp_path)).iloc[0]

    assert (row["allocations"], row["releases"], row["allocated_bytes"], row["released_bytes"]) == (2, 1, 400, 100)
    assert (row["peak_bytes"], row["peak_time_ns"], row["peak_op"]) == (1400, 15, "aten::mm")
    assert row["peak_reserved_bytes"] == 8192


def test_without_totals_the_peak_counts_from_the_recordings_start(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 5)
    with_memory(builder, 5, 100, cat="")
    with_memory(builder, 6, -100, cat="")
    with_memory(builder, 7, 60, cat="")

    row = memory_peaks(builder.trace(tmp_path)).iloc[0]

    assert (row["peak_bytes"], row["peak_reserved_bytes"]) == (100, -1)


def test_a_step_that_keeps_what_it_asked_for_shows_it(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 100).step(2, 100, 100)
    with_memory(builder, 10, 100, **totals(100, 0))
    with_memory(builder, 20, -100, **totals(0, 0))
    with_memory(builder, 110, 100, **totals(100, 0))

    table = memory_by_step(builder.trace(tmp_path))

    assert table["step"].tolist() == [0, 1]
    assert table["kept_bytes"].tolist() == [0, 100]
    assert table["peak_bytes"].tolist() == [100, 100]


@pytest.mark.parametrize("name", ["tracelens_h100_qwen05b", "tracelens_mi300_vit"])
def test_real_peaks_are_those_of_a_plain_walk(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    events, _ = plain.load(path)
    by_device: dict[tuple[int, int], list[dict[str, int]]] = defaultdict(list)
    for event in events:
        if event.get("name") == "[memory]":
            by_device[event["args"]["Device Type"], event["args"]["Device Id"]].append(event["args"])

    found = memory_peaks(read(path)).set_index("device")

    assert len(found) == len(by_device)
    for (kind, number), arguments in by_device.items():
        row = found.loc[{0: "cpu", 1: f"cuda:{number}", 6: f"hip:{number}"}[kind]]
        assert row["peak_bytes"] == max(each["Total Allocated"] for each in arguments)
        assert row["peak_reserved_bytes"] == max(each["Total Reserved"] for each in arguments)
        assert row["allocated_bytes"] == sum(max(each["Bytes"], 0) for each in arguments)
        assert row["releases"] == sum(each["Bytes"] < 0 for each in arguments)
