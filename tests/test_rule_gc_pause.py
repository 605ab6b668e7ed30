"""PYB002: Python's garbage collector interrupts the steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.gc_pause import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

BASE = 1_700_000_000_000_000_000
"""Wall-clock time of the trace's zero."""


def plain(folder: Path) -> Trace:
    """Four steps of 1 ms with an op of 900 µs each."""
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).op("aten::mm", start, 900_000)
    return replace(built.trace(folder), base_ns=BASE)


def with_pauses(folder: Path, *pauses: tuple[int, int]) -> Trace:
    """Its pauses begin so long after the trace's zero, and last so long."""
    return observed(plain(folder), pauses_ns=tuple((BASE + start, took, 2) for start, took in pauses))


def test_pauses_within_the_steps_are_found(tmp_path: Path) -> None:
    trace = with_pauses(tmp_path, (1_200_000, 300_000), (2_200_000, 150_000))

    [seen] = ask(RULE, trace)

    # 450 µs of three judged steps of 1 ms
    assert seen.evidence == {"pauses": 2, "share": pytest.approx(0.15), "longest_ns": 300_000, "pause_ns": 450_000}
    assert seen.intervals_ns == ((1_200_000, 1_500_000), (2_200_000, 2_350_000))
    [outcome] = examine(trace, Found((RULE,))).outcomes
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(150_000, abs=2)


def test_what_many_un_profiled_steps_lost_decides_over_a_few_recorded_ones(tmp_path: Path) -> None:
    pauses = with_pauses(tmp_path, (1_200_000, 800_000))
    facts = pauses.facts
    assert facts is not None
    trace = replace(pauses, facts=replace(facts, pause_share=0.05), cache={})

    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert outcome.findings[0].evidence["share"] == pytest.approx(0.05)
    assert outcome.findings[0].stake.share == pytest.approx(0.05, rel=0.001)


def test_a_recording_without_steps_holds_the_programs_start_and_says_nothing(tmp_path: Path) -> None:
    built = replace(TraceBuilder().op("aten::mm", 0, 900_000).trace(tmp_path), base_ns=BASE)

    assert ask(RULE, observed(built, pauses_ns=((BASE + 100_000, 500_000, 2),))) == []


def test_pauses_outside_the_judged_steps_do_not_count(tmp_path: Path) -> None:
    assert ask(RULE, with_pauses(tmp_path, (200_000, 500_000), (5_000_000, 900_000))) == []


def test_quick_looks_at_young_objects_are_nothing(tmp_path: Path) -> None:
    assert ask(RULE, with_pauses(tmp_path, *((1_000_000 + turn * 100_000, 1_500) for turn in range(20)))) == []


def test_the_profilers_own_events_tell_it_too(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).op("aten::mm", start, 900_000)
        built.frame("Python GC", start + 100_000, 200_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert (seen.evidence["pauses"], seen.evidence["share"]) == (3, pytest.approx(0.2))


@pytest.mark.parametrize(("kernel_ns", "share"), [(100_000, 0.24), (970_000, None)])
def test_on_a_gpu_only_the_time_that_it_idles_counts(tmp_path: Path, kernel_ns: int, share: float | None) -> None:
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).op("aten::mm", start, 50_000)
        built.launch("gemm", (start + 5_000, 5_000), (start + 20_000, kernel_ns))
        built.frame("Python GC", start + 200_000, 250_000)

    found = ask(RULE, built.trace(tmp_path))

    # work from 1.02 to 3.12 ms: two of the three pauses lie in it
    assert [seen.evidence["share"] for seen in found] == ([] if share is None else [pytest.approx(0.5 / 2.1)])


@pytest.mark.parametrize(
    ("pauses_at", "named"),
    [
        ((("train.py", 12, 60), ("data.py", 7, 40)), ("train.py", 12)),
        ((("train.py", 12, 50), ("data.py", 7, 50)), (None, None)),
        ((("", 0, 60), ("data.py", 7, 40)), (None, None)),
        ((), (None, None)),
    ],
    ids=["most at one line", "here and there", "under none of its own", "not known"],
)
def test_the_line_is_named_under_which_most_of_the_time_went(
    tmp_path: Path, pauses_at: tuple[tuple[str, int, int], ...], named: tuple[str | None, int | None]
) -> None:
    pauses = ((BASE + 1_200_000, 300_000, 2),)

    [seen] = ask(RULE, observed(plain(tmp_path), pauses_ns=pauses, pauses_at=pauses_at))

    assert (seen.where.file, seen.where.line) == named
