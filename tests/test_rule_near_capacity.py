"""MEM002: the GPU's memory is nearly full, or much of what is held lies idle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.near_capacity import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

GB = 1_000_000_000


def holding(reserved_gb: float, used_gb: float, kind: int = 1) -> TraceBuilder:
    """A device of 80 GB; one op allocates while the allocator holds and has given out so much."""
    built = TraceBuilder(devices=[{"id": 0, "name": "H100", "totalGlobalMem": 80 * GB}])
    built.step(1, 0, 1_000_000).op("aten::mm", 5_000, 20_000)
    built.launch("kernel", (10_000, 2_000), (15_000, 100_000))
    told = {"Total Allocated": int(used_gb * GB), "Total Reserved": int(reserved_gb * GB)}
    args: dict[str, Any] = {"Bytes": 512, "Addr": 1, "Device Type": kind, "Device Id": 0, **told}
    built.events.append(
        {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 100,
            "tid": 1,
            "ts": 7,
            "args": args,
        }
    )
    return built


def test_a_full_device_is_found_and_no_time_is_claimed(tmp_path: Path) -> None:
    [seen] = ask(RULE, holding(76, 70).trace(tmp_path))

    assert (seen.evidence["full_share"], seen.evidence["capacity_bytes"]) == (0.95, 80 * GB)
    assert seen.where.op == "aten::mm"
    assert seen.edit is None


def test_blocks_given_back_under_pressure_are_what_is_at_stake(tmp_path: Path) -> None:
    built = holding(76, 70).call("cudaFree", 200_000, 102_000).call("cudaMalloc", 302_000, 52_000)
    trace = built.trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert seen.evidence["retries"] == 2
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 150_000  # each call keeps 2 µs


@pytest.mark.parametrize(("reserved_gb", "found"), [(72.0, False), (72.1, True)])
def test_up_to_nine_tenths_there_is_room(tmp_path: Path, reserved_gb: float, found: bool) -> None:
    assert bool(ask(RULE, holding(reserved_gb, 70).trace(tmp_path))) is found


@pytest.mark.parametrize(
    ("reserved_gb", "used_gb", "found"),
    [
        (60, 39, True),
        (60, 41, False),  # less than one and a half times
        (39, 10, False),  # less than half of the device
    ],
)
def test_fragments_count_where_they_take_much_of_the_device(
    tmp_path: Path, reserved_gb: float, used_gb: float, found: bool
) -> None:
    assert bool(ask(RULE, holding(reserved_gb, used_gb).trace(tmp_path))) is found


def test_the_cpu_s_memory_is_not_meant(tmp_path: Path) -> None:
    assert ask(RULE, holding(76, 70, kind=0).trace(tmp_path)) == []


def test_without_the_device_s_size_nothing_is_full(tmp_path: Path) -> None:
    built = holding(76, 70)
    built.devices = []

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize("name", ["tracelens_mi300_bert_small", "tracelens_h100_qwen05b"])
def test_programs_that_hold_a_fraction_of_their_device_are_healthy(shared: Path, name: str) -> None:
    assert ask(RULE, read(shared / "traces" / f"{name}.json.gz")) == []
