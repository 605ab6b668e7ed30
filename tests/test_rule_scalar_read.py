"""SYN001: the program waits for the GPU to read a single number."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.scalar_read import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def step_with_read(folder: Path, sync_ns: int, op: str = "aten::item") -> Trace:
    """A step of 1 ms: a kernel of 400 µs, then an op that copies to the host and synchronizes, then a kernel."""
    built = TraceBuilder().step(1, 0, 1_000_000)
    built.launch("long", (10_000, 5_000), (20_000, 400_000))
    built.op(op, 20_000, 420_000).op("aten::_local_scalar_dense" if op == "aten::item" else op, 21_000, 418_000)
    built.launch("Memcpy DtoH (Device -> Pinned)", (22_000, 5_000), (421_500, 1_000), bytes=4)
    built.call("cudaStreamSynchronize", 28_000, sync_ns)
    return built.launch("short", (500_000, 5_000), (510_000, 100_000)).trace(folder)


def test_a_read_in_the_middle_of_a_step_is_found_with_what_the_wait_is_worth(tmp_path: Path) -> None:
    trace = step_with_read(tmp_path, sync_ns=400_000)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["reads"], seen.evidence["waited_ns"]) == (1, 400_000)
    assert seen.where.op == "aten::item"
    assert seen.edit is not None
    # the sync ends 398 µs earlier (it keeps 2 µs), and so does the step; the last kernel runs from 422.5 + 1.5 on and
    # is over at 524 µs, before the host is done with the step at 602 µs
    assert stake_of(trace, [seen.edit]).ns_per_step == 398_000


def test_rocm_s_blocking_copy_under_a_read_is_found(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000).launch("long", (10_000, 5_000), (20_000, 400_000))
    built.op("aten::item", 20_000, 420_000).op("aten::_local_scalar_dense", 21_000, 418_000)
    copy = "Memcpy DtoH (Device -> Host)"
    built.launch(copy, (22_000, 402_000), (421_500, 1_000), bytes=4, api="hipMemcpyWithStream")

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["waited_ns"] == 402_000


def test_a_synchronization_of_another_op_is_not_a_read(tmp_path: Path) -> None:
    assert ask(RULE, step_with_read(tmp_path, sync_ns=400_000, op="aten::copy_")) == []


@pytest.mark.parametrize(("sync_ns", "found"), [(4_999, False), (5_000, True)])
def test_waits_under_half_a_percent_of_the_step_are_not_mentioned(tmp_path: Path, sync_ns: int, found: bool) -> None:
    assert bool(ask(RULE, step_with_read(tmp_path, sync_ns))) is found


def cpu_reads(folder: Path, reads: int, each_ns: int) -> Trace:
    """A CPU step of 1 ms with so many reads, one after the other."""
    built = TraceBuilder().step(1, 0, 1_000_000)
    for number in range(reads):
        built.op("aten::item", number * 20_000, each_ns)
        built.op("aten::_local_scalar_dense", number * 20_000 + 1, each_ns - 2)
    return built.trace(folder)


def test_one_read_per_step_is_nothing_on_the_cpu(tmp_path: Path) -> None:
    assert ask(RULE, cpu_reads(tmp_path, reads=1, each_ns=200_000)) == []


@pytest.mark.parametrize(("reads", "found"), [(15, False), (16, True)])
def test_a_loop_of_reads_on_the_cpu_is_found(tmp_path: Path, reads: int, found: bool) -> None:
    assert bool(ask(RULE, cpu_reads(tmp_path, reads, each_ns=10_000))) is found


@pytest.mark.parametrize(("each_ns", "found"), [(4_900, False), (5_000, True)])
def test_reads_on_the_cpu_must_fill_a_tenth_of_the_step(tmp_path: Path, each_ns: int, found: bool) -> None:
    trace = cpu_reads(tmp_path, reads=20, each_ns=each_ns)

    assert bool(ask(RULE, trace)) is found


def test_reads_on_the_cpu_are_worth_their_own_time_and_are_counted_once(tmp_path: Path) -> None:
    trace = cpu_reads(tmp_path, reads=20, each_ns=10_000)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 200_000


def test_reads_from_two_source_lines_are_two_findings(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000)
    for start, line in ((0, 10), (500_000, 20)):
        built.frame(f"train.py({line}): step", start, 400_000)
        for number in range(10):
            built.op("aten::item", start + number * 20_000, 10_000)

    seen = ask(RULE, built.trace(tmp_path))

    assert [(sighting.where.file, sighting.where.line) for sighting in seen] == [("train.py", 10), ("train.py", 20)]
