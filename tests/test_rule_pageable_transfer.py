"""CPY001: copies between host and GPU go through pageable memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.pageable_transfer import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

UPLOAD = "Memcpy HtoD (Pageable -> Device)"


def step_with_copy(folder: Path, name: str, size: int, **more: object) -> Trace:
    """Two steps of 10 ms, each with a copy of 1 ms that the host waits for, and a kernel of 4 ms after it."""
    built = TraceBuilder()
    for start in (0, 10_000_000):
        built.step(start // 10_000_000, start, 10_000_000)
        built.op("aten::copy_", start + 50_000, 1_150_000)
        built.launch(name, (start + 100_000, 1_010_000), (start + 105_000, 1_000_000), bytes=size, **more)
        built.call("cudaStreamSynchronize", start + 1_112_000, 5_000)
        built.launch("kernel", (start + 1_300_000, 5_000), (start + 1_310_000, 4_000_000))
    return built.trace(folder)


def test_a_pageable_upload_in_every_step_is_found_and_worth_what_pinned_memory_saves(tmp_path: Path) -> None:
    trace = step_with_copy(tmp_path, UPLOAD, 6_000_000)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["bytes"], seen.evidence["one_off"]) == (2, 12_000_000, False)
    assert seen.where.op == "aten::copy_"
    assert seen.edit is not None
    # 6 MB at 12 GB/s take 0.5 ms; the call returns at once, after 2 µs instead of 1,010, and so does the sync
    assert set(seen.edit.keep.values()) == {0.5}
    stake = stake_of(trace, [seen.edit])
    # 1,008 µs from the copy and 3 µs from the sync, in both steps alike
    assert stake.ns_per_step == 1_008_000 + 3_000


@pytest.mark.parametrize(("size", "found"), [(999_999, False), (1_000_000, True)])
def test_it_speaks_from_a_megabyte_per_step(tmp_path: Path, size: int, found: bool) -> None:
    trace = step_with_copy(tmp_path, UPLOAD, size)

    assert bool(ask(RULE, trace, idle_share=1.0)) is found


@pytest.mark.parametrize(("idle_share", "found"), [(0.38, True), (0.39, False)])
def test_small_copies_count_by_their_share_of_idle_time(tmp_path: Path, idle_share: float, found: bool) -> None:
    trace = step_with_copy(tmp_path, UPLOAD, 100)

    # copies take 2 ms; between the first copy and the last kernel the GPU idles for 0.205 + 4.795 + 0.205 = 5.205 ms
    assert bool(ask(RULE, trace, idle_share=idle_share)) is found


def test_pinned_copies_are_left_in_peace(tmp_path: Path) -> None:
    assert ask(RULE, step_with_copy(tmp_path, "Memcpy HtoD (Pinned -> Device)", 6_000_000)) == []


def test_rocm_s_copies_say_nothing_of_their_memory(tmp_path: Path) -> None:
    trace = step_with_copy(tmp_path, "Memcpy HtoD (Host -> Device)", 6_000_000, api="hipMemcpyWithStream")

    assert ask(RULE, trace) == []


def test_an_upload_before_the_first_kernel_is_called_one_off(tmp_path: Path) -> None:
    built = TraceBuilder().op("aten::copy_", 0, 1_100_000)
    built.launch(UPLOAD, (1_000, 1_010_000), (5_000, 1_000_000), bytes=4_000_000)
    built.launch("kernel", (2_000_000, 5_000), (2_010_000, 4_000_000))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["one_off"] is True
    assert "one-off upload" in seen.message


def test_scalar_reads_are_another_rule_s(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 10_000_000).op("aten::item", 0, 2_000_000)
    built.launch("Memcpy DtoH (Device -> Pageable)", (1_000, 1_010_000), (5_000, 1_000_000), bytes=4_000_000)
    built.launch("kernel", (3_000_000, 5_000), (3_010_000, 100_000))

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize(("waited_ns", "found"), [(10_000, True), (9_999, False)])
def test_a_few_bytes_that_make_the_host_wait_for_all_that_is_queued_are_found(
    tmp_path: Path, waited_ns: int, found: bool
) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000).launch("long", (5_000, 2_000), (10_000, 600_000))
    for depth, name in enumerate(("aten::index", "aten::to", "aten::copy_")):
        built.op(name, 20_000 + depth * 100, 650_000 - depth * 200)
    built.launch(UPLOAD, (22_000, 3_000), (610_500, 500), bytes=64)
    built.call("cudaStreamSynchronize", 611_500 - waited_ns, waited_ns)
    trace = built.launch("next", (700_000, 2_000), (705_000, 50_000)).trace(tmp_path)

    assert bool(ask(RULE, trace)) is found
