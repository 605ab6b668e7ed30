"""SYN003: an op has to know a number from the GPU before it knows how large its own result is."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.data_dependent_shape import RULE
from profiler_doctor.rules.scalar_read import RULE as SCALAR_READ
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def step_with(folder: Path, op: str, inner: str, sync_ns: int = 400_000, at_ns: int = 20_000) -> Trace:
    """A step of 1 ms: a kernel of 400 µs, an op that copies 8 bytes to the host and waits, then a kernel of 100 µs."""
    built = TraceBuilder().step(1, 0, 1_000_000)
    built.launch("long", (10_000, 5_000), (20_000, 400_000))
    built.op(op, at_ns, 420_000).op(inner, at_ns + 1_000, 418_000)
    built.launch("Memcpy DtoH (Device -> Pinned)", (at_ns + 2_000, 5_000), (421_500, 1_000), bytes=8)
    built.call("cudaStreamSynchronize", at_ns + 8_000, sync_ns)
    return built.launch("short", (500_000, 5_000), (510_000, 100_000)).trace(folder)


@pytest.mark.parametrize(
    ("op", "inner"),
    [
        ("aten::nonzero", "aten::nonzero"),
        ("aten::index", "aten::nonzero"),
        ("aten::masked_select", "aten::nonzero"),
        ("aten::bincount", "aten::item"),
        ("aten::repeat_interleave", "aten::_local_scalar_dense"),
        ("aten::_unique2", "aten::empty"),
        ("aten::randperm", "aten::item"),
    ],
)
def test_an_op_that_waits_for_the_size_of_its_result_is_found(tmp_path: Path, op: str, inner: str) -> None:
    trace = step_with(tmp_path, op, inner)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["calls"], seen.evidence["waited_ns"], seen.where.op) == (1, 400_000, op)
    assert seen.edit is not None
    # the wait keeps 2 µs; the host, then done with the step at 602 µs, is last: the kernels end at 524 µs
    assert stake_of(trace, [seen.edit]).ns_per_step == 398_000


def test_what_an_op_reads_to_know_its_size_is_no_read_of_the_program_s(tmp_path: Path) -> None:
    assert ask(SCALAR_READ, step_with(tmp_path, "aten::bincount", "aten::item")) == []


@pytest.mark.parametrize(("op", "inner"), [("aten::item", "aten::_local_scalar_dense"), ("aten::to", "aten::copy_")])
def test_reads_and_copies_of_the_program_s_own_are_not_meant(tmp_path: Path, op: str, inner: str) -> None:
    assert ask(RULE, step_with(tmp_path, op, inner)) == []


def test_indices_that_must_first_be_moved_are_a_copy_and_no_question_of_shape(tmp_path: Path) -> None:
    assert ask(RULE, step_with(tmp_path, "aten::index", "aten::copy_")) == []


def test_an_index_that_does_not_wait_is_healthy(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000).op("aten::index", 10_000, 20_000)

    assert ask(RULE, built.launch("gather", (15_000, 5_000), (25_000, 100_000)).trace(tmp_path)) == []


@pytest.mark.parametrize(("sync_ns", "found"), [(4_999, False), (5_000, True)])
def test_waits_under_half_a_percent_of_the_step_are_not_mentioned(tmp_path: Path, sync_ns: int, found: bool) -> None:
    assert bool(ask(RULE, step_with(tmp_path, "aten::index", "aten::nonzero", sync_ns))) is found


def test_preparation_before_the_judged_steps_does_not_matter(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(3):
        built.step(step, step * 1_000_000, 1_000_000)
        built.launch("kernel", (step * 1_000_000 + 10_000, 5_000), (step * 1_000_000 + 20_000, 400_000))
    built.op("aten::nonzero", 20_000, 420_000).call("cudaStreamSynchronize", 28_000, 400_000)

    assert ask(RULE, built.trace(tmp_path)) == []
