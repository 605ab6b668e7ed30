"""DAT003: the loader's workers are started anew for each epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.measures.fetches import WORKERS_START
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.workers_respawn import RULE
from tests.asking import ask
from tests.loading import WORKERS, loader
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def epochs(folder: Path, start_ns: int, first_ns: int, ranges: bool = True) -> Trace:
    """Seven steps of 1 ms, fetches of 10 µs; the third and sixth begin with a start of workers and a first fetch."""
    built = TraceBuilder()
    for number in range(7):
        at = number * 1_000_000
        built.step(number, at, 1_000_000)
        fetch_ns = first_ns if number in (2, 5) else 10_000
        if ranges and number in (2, 5):
            built.annotation(WORKERS_START, at, start_ns)
        built.annotation(WORKERS, at + start_ns, fetch_ns)
        built.op("aten::mm", at + 800_000, 150_000)
    return built.trace(folder)


def test_starts_and_first_batches_are_found_with_what_they_take(tmp_path: Path) -> None:
    trace = observed(epochs(tmp_path, 200_000, 400_000), loaders=(loader(workers=2),))

    [seen] = ask(RULE, trace)

    # two of 600 µs in six judged steps of 1 ms
    assert seen.evidence == {"starts": 2, "share": pytest.approx(0.2), "median_fetch_ns": 10_000}
    assert (seen.where.file, seen.where.line) == ("data.py", 9)
    [outcome] = examine(trace, Found((RULE,))).outcomes
    # a first batch as quick as the others takes 10 µs: two times 590 µs over six steps
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(2 * 590_000 // 6, abs=2)


def test_in_other_recordings_slow_first_batches_show_it(tmp_path: Path) -> None:
    [seen] = ask(RULE, epochs(tmp_path, 200_000, 400_000, ranges=False))

    assert seen.evidence["starts"] == 2
    assert seen.evidence["share"] == pytest.approx(800 / 6000)


def test_a_single_start_may_be_the_only_one(tmp_path: Path) -> None:
    assert ask(RULE, observed(epochs(tmp_path, 200_000, 400_000), loaders=(loader(workers=2),)), starts=3) == []


def test_workers_that_stay_are_not_started_anew(tmp_path: Path) -> None:
    trace = observed(epochs(tmp_path, 200_000, 400_000), loaders=(loader(workers=2, persistent=True),))

    assert ask(RULE, trace) == []


@pytest.mark.parametrize(("first_ns", "found"), [(60_000, False), (100_000, True)])
def test_it_speaks_from_three_hundredths_of_the_time_on(tmp_path: Path, first_ns: int, found: bool) -> None:
    trace = observed(epochs(tmp_path, 20_000, first_ns), loaders=(loader(workers=2),))

    assert bool(ask(RULE, trace)) is found
