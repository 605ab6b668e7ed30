"""LCH002: most kernels are over before the next one can be launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.tiny_kernel_flood import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def kernels_of(folder: Path, durations_ns: list[int], latency_ns: int = 5_000) -> Trace:
    """A launch every 200 µs; each kernel starts `latency_ns` after its launch."""
    built = TraceBuilder().step(1, 0, 200_000 * len(durations_ns))
    for number, dur in enumerate(durations_ns):
        built.launch("kernel", (number * 200_000, 2_000), (number * 200_000 + latency_ns, dur))
    return built.trace(folder)


def test_tiny_kernels_on_an_empty_queue_are_found(tmp_path: Path) -> None:
    trace = kernels_of(tmp_path, [3_000] * 9 + [90_000] * 3)

    [seen] = ask(RULE, trace)

    assert seen.evidence == {
        "kernels": 12,
        "tiny_share": 0.75,
        "empty_queue_share": 1.0,
        "median_kernel_ns": 3_000,
    }


def test_tiny_kernels_behind_a_deep_queue_cost_nothing(tmp_path: Path) -> None:
    assert ask(RULE, kernels_of(tmp_path, [3_000] * 12, latency_ns=60_000)) == []


@pytest.mark.parametrize(("tiny", "found"), [(5, False), (6, True)])
def test_half_of_the_kernels_must_be_tiny(tmp_path: Path, tiny: int, found: bool) -> None:
    assert bool(ask(RULE, kernels_of(tmp_path, [9_999] * tiny + [10_000] * (12 - tiny)))) is found


@pytest.mark.parametrize(("latency_ns", "found"), [(24_999, True), (25_000, False)])
def test_a_queue_is_empty_up_to_25_us(tmp_path: Path, latency_ns: int, found: bool) -> None:
    assert bool(ask(RULE, kernels_of(tmp_path, [3_000] * 12, latency_ns))) is found


def test_at_stake_are_all_launches_of_a_run_but_the_first(tmp_path: Path) -> None:
    trace = kernels_of(tmp_path, [3_000] * 9 + [90_000] * 3)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 8 * 2_000  # nine tiny kernels in a row, launches of 2 µs
