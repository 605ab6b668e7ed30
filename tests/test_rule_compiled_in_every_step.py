"""JAX003: a JAX program compiles in step after step."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.compile_in_window import RULE as COMPILE_IN_WINDOW
from profiler_doctor.rules.compiled_in_every_step import RULE
from tests.asking import ask
from tests.test_rule_recompiles import steps as compiled_steps
from tests.trace_builder import TraceBuilder

US = 1000


def recorded(folder: Path, compiling: tuple[int, ...], took_us: int = 200, facts: JaxFacts | None = None) -> Trace:
    """Five steps of 1 ms. Those named by number call `predict`, which is written for XLA and compiled by it."""
    built = TraceBuilder()
    for step in range(5):
        start = step * 1000 * US
        built.step(step, start, 1000 * US)
        built.op("PjitFunction(predict)", start + 10 * US, 900 * US)
        if step in compiling:
            built.op("lower_sharding_computation", start + 20 * US, 50 * US)
            built.op("backend_compile_and_load", start + 100 * US, took_us * US)
            built.op("backend_compile", start + 110 * US, (took_us - 20) * US)  # inside it, and no second one
    trace = built.trace(folder)
    return trace if facts is None else trace.with_capture(Facts(jax=facts), None)


def test_a_function_that_is_compiled_in_every_step_is_found(tmp_path: Path) -> None:
    [seen] = ask(RULE, recorded(tmp_path, (0, 1, 2, 3, 4)))

    assert seen.message.startswith("Programs are compiled in 4 of 4 steps, which takes 25% of their time")
    assert "most of it for predict." in seen.message
    assert seen.evidence["time_ns"] == 4 * 250 * US
    assert seen.edit is not None
    assert len(seen.edit.keep) == 8


@pytest.mark.parametrize(("compiling", "found"), [((0, 1), False), ((1,), False), ((1, 2), True), ((0,), False)])
def test_what_is_compiled_once_or_at_the_start_is_silent(
    tmp_path: Path, compiling: tuple[int, ...], found: bool
) -> None:
    assert bool(list(ask(RULE, recorded(tmp_path, compiling)))) == found


def test_a_small_share_is_silent(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(5):
        start = step * 10_000 * US
        built.step(step, start, 10_000 * US)
        built.op("backend_compile_and_load", start, 499 * US)
    assert not ask(RULE, built.trace(tmp_path))


def test_what_dynamo_compiles_is_none_of_its_and_the_other_way_round(tmp_path: Path) -> None:
    """Both call a phase `backend_compile`: a torch program's recompilations were reported as JAX's, too."""
    dynamos = compiled_steps("0/1")
    for step in range(3):
        dynamos.op("backend_compile", (step * 1000 + 120) * US, 100 * US)
    assert not ask(RULE, dynamos.trace(tmp_path))
    assert not ask(COMPILE_IN_WINDOW, recorded(tmp_path, (0, 1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"jitted": True, "objects": 5, "shapes": 1}, "The loop compiles step() anew"),
        ({"jitted": True, "objects": 1, "shapes": 7}, "arguments of 7 kinds of shapes"),
        ({"jitted": True, "objects": 1, "shapes": 1}, "are others each time"),
    ],
)
def test_the_reason_is_named_where_it_was_seen(tmp_path: Path, facts: dict[str, int], reason: str) -> None:
    known = JaxFacts(version="0.10.2", function="step()", file="train.py", line=3, **facts)  # type: ignore[arg-type]
    [seen] = ask(RULE, recorded(tmp_path, (1, 2, 3, 4), facts=known))
    assert reason in seen.message
    assert (seen.where.file, seen.where.line) == ("train.py", 3)
