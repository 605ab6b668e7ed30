"""MSR005: the profiler itself takes part of the recorded time."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.rules.profiler_distortion import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


@pytest.mark.parametrize(("profiled_ns", "found"), [(1_100, False), (1_101, True)])
def test_a_step_that_recording_made_a_tenth_longer_is_named(tmp_path: Path, profiled_ns: int, found: bool) -> None:
    facts = Facts(profiled_step_ns=(profiled_ns,), step_ns=(1_000, 1_000, 5_000))
    trace = TraceBuilder().op("aten::add", 0, 1_000).trace(tmp_path).with_capture(facts, None)

    assert bool(ask(RULE, trace)) is found


@pytest.mark.parametrize(("dur_ns", "found"), [(10_000, False), (10_001, True)])
def test_the_profiler_s_own_work_counts_from_one_percent(tmp_path: Path, dur_ns: int, found: bool) -> None:
    built = TraceBuilder().op("aten::add", 0, 1_000_000)
    trace = built.event("overhead", "Lazy Function Loading", 5_000, dur_ns, tid=0, pid=-1).trace(tmp_path)

    seen = ask(RULE, trace)

    assert [sighting.evidence["overhead_ns"] for sighting in seen] == ([dur_ns] if found else [])


@pytest.mark.parametrize(("frames", "found"), [(100, False), (101, True)])
def test_fifty_frames_an_op_are_too_many(tmp_path: Path, frames: int, found: bool) -> None:
    built = TraceBuilder().op("aten::add", 0, 1_000).op("aten::mul", 2_000, 1_000)
    for place in range(frames):
        built.frame(f"model.py({place}): call", 5_000 + place, 1)

    assert bool(ask(RULE, built.trace(tmp_path))) is found


def test_its_notes_leave_the_findings_standing(tmp_path: Path) -> None:
    facts = Facts(profiled_step_ns=(3_000,), step_ns=(1_000,))
    trace = TraceBuilder().op("aten::add", 0, 1_000).trace(tmp_path).with_capture(facts, None)

    assert [sighting.grave for sighting in ask(RULE, trace)] == [False]
    assert RULE.vetoes == ()
