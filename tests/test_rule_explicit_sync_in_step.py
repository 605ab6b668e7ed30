"""SYN002: the program stops in the middle of a step until the GPU has caught up."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.explicit_sync_in_step import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def step_with_sync(
    folder: Path, at_ns: int, dur_ns: int, around: str = "", name: str = "cudaDeviceSynchronize"
) -> Trace:
    """A step of 1 ms with launches at 100 and 600 µs, and a synchronization, under an op if one is named."""
    built = TraceBuilder().step(1, 0, 1_000_000)
    built.launch("long", (100_000, 5_000), (110_000, 350_000))
    built.launch("short", (600_000, 5_000), (610_000, 100_000))
    if around:
        built.op(around, at_ns - 1_000, dur_ns + 2_000)
    return built.call(name, at_ns, dur_ns).trace(folder)


@pytest.mark.parametrize("name", ["cudaDeviceSynchronize", "cudaStreamSynchronize", "hipEventSynchronize"])
def test_a_synchronization_between_launches_is_found(tmp_path: Path, name: str) -> None:
    trace = step_with_sync(tmp_path, at_ns=110_000, dur_ns=355_000, name=name)

    [seen] = ask(RULE, trace)

    assert seen.evidence == {"syncs": 1, "waited_ns": 355_000, "calls": {name: 1}}
    assert seen.intervals_ns == ((110_000, 465_000),)
    assert seen.edit is not None
    assert len(seen.edit.free) == 1


@pytest.mark.parametrize("at_ns", [50_000, 700_000])
def test_synchronizations_at_the_edges_of_a_step_do_not_count(tmp_path: Path, at_ns: int) -> None:
    assert ask(RULE, step_with_sync(tmp_path, at_ns, dur_ns=40_000)) == []


@pytest.mark.parametrize("around", ["aten::copy_", "aten::item", "aten::nonzero", "c10d::allreduce_"])
def test_a_synchronization_that_an_op_needs_is_not_explicit(tmp_path: Path, around: str) -> None:
    assert ask(RULE, step_with_sync(tmp_path, at_ns=110_000, dur_ns=355_000, around=around)) == []


@pytest.mark.parametrize(("dur_ns", "found"), [(4_999, False), (5_000, True)])
def test_waits_under_half_a_percent_of_the_step_are_not_mentioned(tmp_path: Path, dur_ns: int, found: bool) -> None:
    assert bool(ask(RULE, step_with_sync(tmp_path, at_ns=500_000, dur_ns=dur_ns))) is found
