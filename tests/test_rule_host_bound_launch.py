"""LCH001: the GPU waits for the program to hand it work."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.host_bound_launch import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

PERIOD_NS = 100_000


def every_100_us(folder: Path, kernel_ns: int, kernels: int = 11) -> Trace:
    """Launches of 2 µs every 100 µs, each kernel 4 µs after its launch's start, in one step."""
    built = TraceBuilder().step(1, 0, PERIOD_NS * kernels)
    for start in range(0, PERIOD_NS * kernels, PERIOD_NS):
        built.launch("kernel", (start, 2_000), (start + 4_000, kernel_ns))
    return built.trace(folder)


def test_a_gpu_that_runs_dry_after_each_kernel_is_found_with_its_shares(tmp_path: Path) -> None:
    trace = every_100_us(tmp_path, kernel_ns=10_000)

    [seen] = ask(RULE, trace)

    # from the first start to the last end: 10 periods and a kernel, 1,010 µs, of which 11 kernels are busy
    assert seen.evidence["span_ns"] == 1_010_000
    assert seen.evidence["busy_share"] == pytest.approx(110 / 1010, abs=1e-6)
    assert seen.evidence["host_share"] == pytest.approx(900 / 1010, abs=1e-6)
    assert seen.edit is not None
    assert seen.edit.no_launch_gaps


def test_a_busy_gpu_is_left_in_peace(tmp_path: Path) -> None:
    assert ask(RULE, every_100_us(tmp_path, kernel_ns=95_000)) == []


@pytest.mark.parametrize(("kernel_ns", "found"), [(83_000, True), (86_000, False)])
def test_it_speaks_below_85_percent_busy(tmp_path: Path, kernel_ns: int, found: bool) -> None:
    # busy: 11 k of 1,000,000 + k, 84.3 % and 87.1 %
    assert bool(ask(RULE, every_100_us(tmp_path, kernel_ns))) is found


@pytest.mark.parametrize(("kernels", "found"), [(9, False), (10, True)])
def test_a_handful_of_kernels_is_no_steady_state(tmp_path: Path, kernels: int, found: bool) -> None:
    assert bool(ask(RULE, every_100_us(tmp_path, kernel_ns=10_000, kernels=kernels))) is found


def test_waiting_in_a_blocking_call_is_not_launch_time(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_100_000)
    for start in range(0, 1_100_000, PERIOD_NS):
        built.launch("kernel", (start, 2_000), (start + 4_000, 10_000))
        built.call("cudaDeviceSynchronize", start + 3_000, 96_500)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_idle_time_that_only_the_profiler_made_is_not_believed(tmp_path: Path) -> None:
    trace = every_100_us(tmp_path, kernel_ns=10_000).with_capture(Facts(step_ns=(120_000,)), None)

    assert ask(RULE, trace) == []  # 110 µs of work fill 92 % of the un-profiled step
