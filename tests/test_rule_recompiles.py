"""COM002: a compiled function is compiled again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.compile_facts import CompileFacts, Recompile
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.rules.recompiles import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

US = 1000
SIZES = Recompile(file="/me/run.py", line=18, function="forward", guards=("size 3, not 4", "size 4, not 5"), count=9)


def compiled(built: TraceBuilder, compile_id: str, start: int, dur: int = 200 * US) -> TraceBuilder:
    """One compilation as torch marks it."""
    return built.op("dynamo", start, dur).annotation(f"dynamo_data: compile_id={compile_id}", start + 1, 1)


def steps(*ids: str) -> TraceBuilder:
    """Steps of 1000 us, each with a compilation of 200 us for each id."""
    built = TraceBuilder()
    for number in range(3):
        built.step(number, number * 1000 * US, 1000 * US)
        for place, compile_id in enumerate(ids):
            compiled(built, compile_id, (number * 1000 + 100 + 250 * place) * US)
    return built


def test_recompilations_in_every_step_are_worth_their_time(tmp_path: Path) -> None:
    trace = steps("0/0", "0/1", "0/2").trace(tmp_path)

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert finding.evidence["recompilations"] == 4  # two a step in the two steps that are judged
    assert finding.stake.share == pytest.approx(0.4)


def test_the_line_and_the_newest_guard_are_those_that_torch_told(tmp_path: Path) -> None:
    trace = observed(steps("0/1", "0/2").trace(tmp_path), compiles=CompileFacts(recompiles=(SIZES,)))

    [seen] = ask(RULE, trace)

    assert (seen.where.file, seen.where.line) == ("/me/run.py", 18)
    assert seen.message.endswith("Because: size 4, not 5.")


def test_the_one_recompilation_by_which_torch_learns_that_a_size_varies_is_usual(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(4):
        built.step(number, number * 1000 * US, 1000 * US)
    compiled(built, "0/1", 2100 * US)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_third_version_is_one_too_many_even_in_a_single_step(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1000 * US)

    [seen] = ask(RULE, compiled(built, "0/2", 100 * US).trace(tmp_path))

    assert seen.evidence["highest_turn"] == 2


def test_first_compilations_are_not_counted_here(tmp_path: Path) -> None:
    assert ask(RULE, steps("0/0", "1/0").trace(tmp_path)) == []


def test_a_function_at_the_limit_is_named_though_nothing_is_compiled_any_more(tmp_path: Path) -> None:
    given_up = Recompile(file="/me/run.py", line=18, function="forward", guards=("size",), count=7, limit_hit=True)
    trace = TraceBuilder().step(0, 0, 1000 * US).op("aten::mm", 10 * US, 900 * US).trace(tmp_path)

    [seen] = ask(RULE, observed(trace, compiles=CompileFacts(recompiles=(SIZES, given_up))))

    assert "runs uncompiled" in seen.message
    assert seen.edit is None


@pytest.mark.parametrize(("turn", "found"), [(6, False), (7, True)])
def test_the_last_version_before_the_limit_is_a_warning(tmp_path: Path, turn: int, found: bool) -> None:
    trace = TraceBuilder().step(0, 0, 1000 * US).op(f"Torch-Compiled Region: 0/{turn}", 10 * US, 900 * US)

    assert bool(ask(RULE, trace.trace(tmp_path))) is found


def test_recompilations_of_the_past_that_cost_nothing_now_are_not_named(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000 * US).op("Torch-Compiled Region: 0/3", 10 * US, 900 * US).trace(tmp_path)

    assert ask(RULE, observed(trace, compiles=CompileFacts(recompiles=(SIZES,)))) == []
