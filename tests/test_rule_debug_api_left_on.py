"""ENV002: a debugging aid is switched on while the program does its real work."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.rules.debug_api_left_on import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def one_step() -> TraceBuilder:
    return TraceBuilder().step(0, 0, 1_000_000)


def test_each_mode_that_was_on_is_found(tmp_path: Path) -> None:
    modes = ("autograd anomaly mode", "sys.settrace (a debugger or coverage)")

    seen = ask(RULE, observed(one_step().trace(tmp_path), debug_modes=modes))

    assert [sighting.evidence["mode"] for sighting in seen] == list(modes)
    assert "autograd anomaly mode" in seen[0].message
    assert seen[0].intervals_ns == ((0, 1_000_000),)
    assert seen[0].edit is None


def test_nothing_on_is_nothing_said(tmp_path: Path) -> None:
    assert ask(RULE, observed(one_step().trace(tmp_path))) == []


def test_the_scripts_own_profiler_is_no_debugging_aid(tmp_path: Path) -> None:
    assert ask(RULE, observed(one_step().trace(tmp_path), own_profiler=True)) == []


def test_blocking_launches_are_found_where_a_gpu_worked(tmp_path: Path) -> None:
    trace = observed(one_step().trace(tmp_path), device="cuda", environment={"CUDA_LAUNCH_BLOCKING": "1"})

    assert [sighting.message for sighting in ask(RULE, trace)] == ["CUDA_LAUNCH_BLOCKING=1 was set for this run."]


@pytest.mark.parametrize(("device", "value"), [("cpu", "1"), ("cuda", "0"), ("cuda", "")])
def test_they_are_no_matter_without_a_gpu_or_when_off(tmp_path: Path, device: str, value: str) -> None:
    trace = observed(one_step().trace(tmp_path), device=device, environment={"CUDA_LAUNCH_BLOCKING": value})

    assert ask(RULE, trace) == []


def test_the_line_under_way_when_a_mode_was_first_seen_is_named(tmp_path: Path) -> None:
    places = {"tracemalloc": ("train.py", 12)}

    [seen] = ask(RULE, observed(one_step().trace(tmp_path), debug_modes=("tracemalloc",), seen_at=places))

    assert (seen.where.file, seen.where.line) == ("train.py", 12)
