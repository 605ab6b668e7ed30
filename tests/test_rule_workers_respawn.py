"""DAT003: the loader's workers are started anew for each epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def long_epochs(folder: Path, iterators: int = 3, slow_ns: int = 900_000, every: int = 10, **told: Any) -> Trace:
    """Steps of 1 ms with fetches of 10 µs; 30 were timed, and every tenth of those waits for its first batch."""
    trace = epochs(folder, 200_000, 400_000)
    timed = [slow_ns if number % every == 0 else 10_000 for number in range(30)]
    return observed(
        trace,
        loaders=(loader(**{"workers": 2, "iterators": iterators} | told),),
        warmup_steps=27,
        profiled_step_ns=(1_000_000,) * 3,
        step_ns=(1_000_000,) * 30,
        step_loading_ns=tuple(timed),
    )


def test_epochs_longer_than_the_recording_show_in_the_steps_that_were_timed(tmp_path: Path) -> None:
    [seen] = ask(RULE, long_epochs(tmp_path), starts=3)

    # 3 of 30 steps of 1 ms wait 890 µs longer than the others
    assert seen.evidence == {"starts": 3, "share": pytest.approx(3 * 890 / 30_000), "median_fetch_ns": 10_000}
    assert seen.message.startswith("The data loader's workers are started anew every 10 steps")
    assert (seen.where.file, seen.where.line) == ("data.py", 9)


@pytest.mark.parametrize(
    "told",
    [{"iterators": 2}, {"every": 4}, {"slow_ns": 90_000}, {"persistent": True}, {"workers": 0}],
    ids=["too few epochs", "more slow fetches than epochs", "not slow", "workers stay", "no workers"],
)
def test_slow_fetches_of_another_kind_are_no_starts(tmp_path: Path, told: dict[str, Any]) -> None:
    assert ask(RULE, long_epochs(tmp_path, **told), starts=3) == []


@pytest.mark.parametrize(("first_ns", "found"), [(60_000, False), (100_000, True)])
def test_it_speaks_from_three_hundredths_of_the_time_on(tmp_path: Path, first_ns: int, found: bool) -> None:
    trace = observed(epochs(tmp_path, 20_000, first_ns), loaders=(loader(workers=2),))

    assert bool(ask(RULE, trace)) is found
