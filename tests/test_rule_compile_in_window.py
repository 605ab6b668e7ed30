"""COM001: part of the recorded time is compiling."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.compile_facts import Compiled, CompileFacts
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.rules.compile_in_window import RULE
from tests.asking import ask
from tests.observed import observed
from tests.test_rule_recompiles import US, compiled, steps
from tests.trace_builder import TraceBuilder


def test_a_compilation_in_every_step_is_worth_its_time(tmp_path: Path) -> None:
    [finding] = examine(steps("0/0").trace(tmp_path), Found((RULE,))).outcomes[0].findings

    assert finding.evidence == {
        "compilations": 2,
        "time_ns": 400 * US,
        "in_every_step": True,
        "intervals_ns": [[1100 * US, 1300 * US], [2100 * US, 2300 * US]],
    }
    assert finding.stake.share == pytest.approx(0.2)


def test_one_in_the_judged_steps_is_a_warm_up_that_was_too_short(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(3):
        built.step(number, number * 1000 * US, 1000 * US)

    [seen] = ask(RULE, compiled(built, "1/0", 1100 * US).trace(tmp_path))

    assert "too short" in seen.message


def test_the_first_step_of_three_may_compile(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(3):
        built.step(number, number * 1000 * US, 1000 * US)

    assert ask(RULE, compiled(built, "0/0", 100 * US).trace(tmp_path)) == []


def test_recompilations_are_another_rules(tmp_path: Path) -> None:
    assert ask(RULE, steps("0/1").trace(tmp_path)) == []


def test_older_versions_that_do_not_say_what_they_compile_are_counted(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1000 * US).op("_compile.<locals>.compile_inner (dynamo_timed)", 10 * US, 500 * US)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["time_ns"] == 500 * US


def test_without_stacks_the_line_is_where_our_capture_saw_most_compilations(tmp_path: Path) -> None:
    places = (Compiled(file="/me/a.py", line=3, function="f"), Compiled(file="/me/b.py", line=7, function="g", count=9))

    [seen] = ask(RULE, observed(steps("0/0").trace(tmp_path), compiles=CompileFacts(compiled_at=places)))

    assert (seen.where.file, seen.where.line) == ("/me/b.py", 7)
