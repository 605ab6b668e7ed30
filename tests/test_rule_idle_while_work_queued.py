"""MSR003: the GPU seems idle although work is queued."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.idle_while_work_queued import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def queued(folder: Path, launched_ns: tuple[int, ...], gap_ns: int, total_ns: int = 5_000_000) -> Trace:
    """A kernel until 100 µs, a gap, then one kernel for each launch, and a last one that ends at `total_ns`."""
    built = TraceBuilder().launch("before", (0, 5_000), (10_000, 90_000))
    for place, at in enumerate(launched_ns):
        built.launch("after", (at, 5_000), (100_000 + gap_ns + place * 20_000, 10_000))
    return built.launch("last", (total_ns - 20_000, 5_000), (total_ns - 10_000, 10_000)).trace(folder)


def test_two_queued_kernels_and_a_gap_mean_that_something_ran_unrecorded(tmp_path: Path) -> None:
    trace = queued(tmp_path, (40_000, 50_000), gap_ns=2_000_000)

    [seen] = ask(RULE, trace)

    # both were launched while the first kernel ran, so all of the gap is stalled: 2 of 4.99 ms
    assert (seen.evidence["stalled_ns"], seen.evidence["waiting"]) == (2_000_000, 2)
    assert seen.evidence["stalled_share"] == pytest.approx(2_000 / 4_990, abs=1e-6)
    assert seen.grave


def test_a_gap_that_the_host_left_is_idle_time_as_it_seems(tmp_path: Path) -> None:
    assert ask(RULE, queued(tmp_path, (2_090_000, 2_095_000), gap_ns=2_000_000)) == []


@pytest.mark.parametrize(("gap_ns", "found"), [(500_000, False), (501_000, True)])
def test_the_gap_must_be_longer_than_500_us(tmp_path: Path, gap_ns: int, found: bool) -> None:
    assert bool(ask(RULE, queued(tmp_path, (40_000, 50_000), gap_ns))) is found


@pytest.mark.parametrize(("second_ns", "found"), [(800_000, True), (801_000, False)])
def test_two_pieces_must_wait_300_us(tmp_path: Path, second_ns: int, found: bool) -> None:
    # the gap ends at 1,100 µs
    assert bool(ask(RULE, queued(tmp_path, (40_000, second_ns), gap_ns=1_000_000))) is found


def test_one_waiting_kernel_may_wait_for_something_of_its_own(tmp_path: Path) -> None:
    assert ask(RULE, queued(tmp_path, (40_000,), gap_ns=2_000_000)) == []


def test_a_short_stall_in_a_long_trace_is_noted_and_silences_nobody(tmp_path: Path) -> None:
    [seen] = ask(RULE, queued(tmp_path, (40_000, 50_000), gap_ns=600_000, total_ns=100_000_000))

    assert not seen.grave
