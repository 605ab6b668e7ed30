"""JAX002: a JAX function is called for one sample after the other."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.jax_facts import JaxFacts, SampleLoopFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.loop_over_samples import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

US = 1000


def recorded(
    folder: Path, *, calls: int = 8, computing_us: int = 100, jitted: bool = False, outside: bool = False
) -> Trace:
    """Two steps of 1 ms, for some of which XLA computes."""
    built = TraceBuilder()
    for step in (0, 1):
        built.step(step, step * 1000 * US, 1000 * US)
        built.op("ThunkExecutor::Execute", step * 1000 * US + 10 * US, computing_us * US)
    loop = SampleLoopFacts(callee="predict()", function="step()", file="train.py", line=9, calls=calls, outside=outside)
    facts = JaxFacts(version="0.10.2", function="step()", file="train.py", line=7, jitted=jitted, loops=(loop,))
    return built.trace(folder).with_capture(Facts(jax=facts), None)


def test_a_loop_over_samples_is_found_at_its_line(tmp_path: Path) -> None:
    [seen] = ask(RULE, recorded(tmp_path))

    assert (seen.where.file, seen.where.line) == ("train.py", 9)
    assert seen.evidence["calls"] == 8
    assert "predict()" in seen.message


def test_a_few_samples_are_silent(tmp_path: Path) -> None:
    assert not ask(RULE, recorded(tmp_path, calls=7))


def test_where_xla_computes_most_of_the_time_only_a_compiled_step_is_told(tmp_path: Path) -> None:
    assert ask(RULE, recorded(tmp_path, computing_us=499))
    assert not ask(RULE, recorded(tmp_path, computing_us=501))
    assert ask(RULE, recorded(tmp_path, computing_us=501, jitted=True))


def test_where_each_step_is_a_sample_it_says_so_and_xlas_time_counts_for_compiled_functions_too(tmp_path: Path) -> None:
    [seen] = ask(RULE, recorded(tmp_path, jitted=True, outside=True))
    assert "8 in a row" in seen.message
    assert not ask(RULE, recorded(tmp_path, jitted=True, outside=True, computing_us=501))


def test_scripts_of_torch_and_those_without_such_a_loop_are_silent(tmp_path: Path) -> None:
    trace = recorded(tmp_path)
    assert not ask(RULE, trace.with_capture(Facts(), None))
    assert not ask(RULE, trace.with_capture(Facts(jax=JaxFacts(version="0.10.2")), None))
