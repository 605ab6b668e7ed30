"""JAX001: a JAX function that makes the steps is called without jit."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.unjitted_function import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

US = 1000
FACTS = Facts(jax=JaxFacts(version="0.10.2", function="update()", file="train.py", line=12))


def recorded(folder: Path, programs: int, computing_us: int, facts: Facts | None = FACTS) -> Trace:
    """Two steps of 1 ms; each starts so many programs, one every 10 µs, and XLA computes each for so long."""
    built = TraceBuilder()
    for step in (0, 1):
        start = step * 1000 * US
        built.step(step, start, 1000 * US)
        for number in range(programs):
            at = start + (1 + 10 * number) * US
            built.op("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", at, 2 * US)
            built.op("ThunkExecutor::Execute (wait for completion)", at + US, computing_us * US)
    trace = built.trace(folder)
    return trace.with_capture(facts, None)


def test_a_function_that_starts_many_small_programs_is_found_with_its_line(tmp_path: Path) -> None:
    [seen] = ask(RULE, recorded(tmp_path, programs=40, computing_us=1))

    assert (seen.where.file, seen.where.line) == ("train.py", 12)
    assert seen.evidence["programs_per_step"] == 40
    assert seen.evidence["computed_share"] == 0.04
    assert "update()" in seen.message


def test_a_jitted_step_with_its_loss_and_a_metric_is_silent(tmp_path: Path) -> None:
    assert not ask(RULE, recorded(tmp_path, programs=3, computing_us=1))
    assert ask(RULE, recorded(tmp_path, programs=4, computing_us=1))


def test_a_step_in_which_xla_computes_most_of_the_time_is_silent(tmp_path: Path) -> None:
    assert not ask(RULE, recorded(tmp_path, programs=60, computing_us=9))  # 54 % of the step
    assert ask(RULE, recorded(tmp_path, programs=50, computing_us=9))  # 45 %


def test_what_xla_computes_counts_where_only_its_operations_are_recorded(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1000 * US)
    for number in range(40):
        at = (1 + 20 * number) * US
        built.op("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", at, 2 * US)
        built.op("wrapped_tanh", at + 2 * US, 5 * US, hlo_op="wrapped_tanh")
    [seen] = ask(RULE, built.trace(tmp_path).with_capture(FACTS, None))
    assert seen.evidence["computed_share"] == 0.2  # 40 times 5 of 1000 µs


def test_a_script_of_torch_and_one_without_a_function_of_its_own_are_silent(tmp_path: Path) -> None:
    assert not ask(RULE, recorded(tmp_path, programs=40, computing_us=1, facts=Facts()))
    no_function = Facts(jax=JaxFacts(version="0.10.2"))
    assert not ask(RULE, recorded(tmp_path, programs=40, computing_us=1, facts=no_function))


def test_what_the_loop_does_around_a_compiled_function_is_told_apart_from_the_function(tmp_path: Path) -> None:
    compiled = Facts(jax=JaxFacts(version="0.10.2", function="update()", file="train.py", line=12, jitted=True))
    [seen] = ask(RULE, recorded(tmp_path, programs=40, computing_us=1, facts=compiled))
    assert "what the loop does around it is not" in seen.message
    assert not ask(RULE, recorded(tmp_path, programs=3, computing_us=1, facts=compiled))
