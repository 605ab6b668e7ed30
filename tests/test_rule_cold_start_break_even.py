"""COM005: the script ends before its compiling can have paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.compile_facts import CompileFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.cold_start_break_even import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

MS = 1_000_000


def run(folder: Path, **facts: Any) -> Trace:
    """10 s of compiling, steps of 10 ms, 400 of them, unless told otherwise."""
    usual = {
        "step_ns": (10 * MS,) * 5,
        "steps_made": 400,
        "compiles": CompileFacts(compilations=2, compile_s=10.0, cache_hits=1, cache_misses=3),
    }
    return observed(TraceBuilder().step(0, 0, 10 * MS).trace(folder), **(usual | facts))


def test_it_is_told_after_how_many_steps_compiling_would_pay(tmp_path: Path) -> None:
    [seen] = ask(RULE, run(tmp_path))

    assert seen.evidence["break_even_steps"] == 1000  # 10 s over the 10 ms that each step would save
    assert seen.message.startswith("Compiling took 10 s (caches: 1 hits, 3 misses).")
    assert seen.edit is None


@pytest.mark.parametrize(("steps", "found"), [(499, True), (500, False)])
def test_a_run_of_half_as_many_steps_is_long_enough(tmp_path: Path, steps: int, found: bool) -> None:
    assert bool(ask(RULE, run(tmp_path, steps_made=steps))) is found


@pytest.mark.parametrize(
    "facts",
    [
        {"steps_made": 0},
        {"step_ns": ()},
        {"compiles": CompileFacts(compilations=1, compile_s=0.9)},
        {"compiles": CompileFacts(compilations=400, compile_s=100.0)},
    ],
    ids=["cut off by us", "not timed", "under a second", "compiles in every step"],
)
def test_where_it_cannot_be_known_or_does_not_matter_nothing_is_said(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert ask(RULE, run(tmp_path, **facts)) == []
