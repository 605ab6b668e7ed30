"""A script of JAX: its function's calls are steps, JAX's own profiler records them, and `jax-jit` is tried on it."""

from __future__ import annotations

import dis
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Options
from profiler_doctor.analyzer.capture.child.jax_compare import JaxShadow
from profiler_doctor.analyzer.capture.child.jax_steps import Looking, in_loop
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.rules.unjitted_function import RULE
from profiler_doctor.verbs.trying import _of_another_kind
from tests.asking import ask

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
MACHINE = Machine(device="cpu", torch=None, cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
SCRIPT = """
    import jax
    import jax.numpy as jnp

    count = 0

    def layer(weight, x):
        return jnp.tanh(x @ weight)

    def forward(weights, x, mode="mean"):
        for weight in weights:
            x = layer(weight, x)
        {special}
        return getattr(x, mode)()

    def main():
        key = jax.random.PRNGKey(0)
        weights = [jax.random.normal(jax.random.fold_in(key, n), (16, 16)) for n in range(10)]
        x = jax.random.normal(key, (4, 16))
        while True:
            y = forward(weights, x)
            y.block_until_ready()

    main()
"""


def _script(folder: Path, special: str = "pass") -> Path:
    script = folder / "model.py"
    script.write_text(textwrap.dedent(SCRIPT).format(special=special), encoding="utf-8")
    return script


def _tried(folder: Path, script: Path, budget_s: float) -> Trial:
    line = script.read_text(encoding="utf-8").split("\n").index('def forward(weights, x, mode="mean"):') + 1
    source = StepSource(kind="module", pattern=("function",), words="calls", function=f"{script}:{line}:forward")
    logs = folder / "trials"
    logs.mkdir()
    program = Program(target=Target(script=str(script)), folder=logs, source=source, machine=MACHINE)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + int(budget_s * 1e9))
    fixes = [fix for fix in find("profiler_doctor.fixes", Fix).items if fix.name == "jax-jit"]
    (trial,) = trials(request, fixes)
    return trial


@needs_jax
@pytest.mark.slow
def test_an_unjitted_function_is_recorded_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options(budget=Budget.start(120.0, verify=True))
    captured = capture(Target(script=str(_script(tmp_path))), options)
    assert captured.facts.jax is not None
    assert captured.facts.jax.function == "forward()"
    assert captured.source is not None
    assert captured.source.words == "calls of forward()"
    assert captured.trace_file is not None
    trace = read(captured.trace_file).with_capture(captured.facts, None)
    assert len(steps(trace)) == 5
    assert len(captured.facts.step_ns) >= 5
    [seen] = ask(RULE, trace)
    assert seen.evidence["programs_per_step"] == 21  # a product and a tanh in each of ten layers, and the mean


@needs_jax
@pytest.mark.slow
def test_jit_is_verified_on_a_function_of_many_small_operations(tmp_path: Path) -> None:
    trial = _tried(tmp_path, _script(tmp_path), 150)
    assert trial.verdict == "verified", trial.reason
    assert trial.speedup is not None
    assert trial.speedup > 2
    assert trial.outputs_equal is True


@needs_jax
@pytest.mark.slow
@pytest.mark.parametrize(
    ("special", "reason"),
    [
        ("x = x if x.sum() > 0 else x + 1", "TracerBoolConversionError"),
        ("print('step')", "what it prints"),
        ("import numpy; x = x + numpy.random.rand()", "random numbers"),
    ],
)
def test_what_tracing_would_freeze_is_never_verified(tmp_path: Path, special: str, reason: str) -> None:
    trial = _tried(tmp_path, _script(tmp_path, special), 60)
    assert trial.verdict in ("rejected", "inconclusive")
    assert reason in trial.reason


@needs_jax
def test_a_frozen_counter_a_lost_change_of_an_argument_and_other_values_are_seen() -> None:
    jax: Any = pytest.importorskip("jax")
    import numpy

    def counted(x: Any, seen: list[int]) -> Any:
        seen.append(1)
        return x * len(seen)

    x = jax.numpy.ones(3)
    shadow = JaxShadow(jax, counted, 0.0)
    _, same = shadow.compared(counted, (x, []), {}, thorough=True)
    assert (same.equal, same.inputs) == (True, 2)
    _, frozen = shadow.compared(lambda x, seen: x * 1, (x, []), {}, thorough=False)
    assert frozen.equal is False
    assert "structure of arguments" in frozen.reasons

    def in_place(array: Any) -> Any:
        array += 1
        return jax.numpy.sum(array)

    _, lost = JaxShadow(jax, in_place, 0.0).compared(
        lambda array: jax.numpy.sum(array + 1), (numpy.zeros(2),), {}, thorough=False
    )
    assert lost.reasons == ("arguments[0][0]",)
    _, baked = JaxShadow(jax, jax.numpy.abs, 0.0).compared(lambda x: x, (x,), {}, thorough=True)
    assert baked.reasons == ("on other values output",)

    def drawing(x: Any) -> Any:
        return x * numpy.random.rand()

    _, frozen = JaxShadow(jax, drawing, 0.0).compared(lambda x: x * 0.5, (x,), {}, thorough=True)
    assert "it draws random numbers differently" in frozen.reasons
    _, drawn = JaxShadow(jax, drawing, 0.0).compared(drawing, (x,), {}, thorough=True)
    assert drawn.equal is True
    _, clocked = JaxShadow(jax, lambda x: x * time.perf_counter_ns(), 0.0).compared(
        lambda x: x, (x,), {}, thorough=True
    )
    assert not clocked.equal


@pytest.mark.parametrize(
    ("of", "facts", "why"),
    [
        ("jax", Facts(), "it changes programs of JAX"),
        ("torch", Facts(jax=JaxFacts(version="0.10")), "it changes programs of torch"),
        ("jax", Facts(jax=JaxFacts(version="0.10")), "no function of the script's own"),
        ("torch", Facts(), None),
    ],
)
def test_a_fix_of_another_kind_says_so(of: Any, facts: Facts, why: str | None) -> None:
    fix = Fix(name="x", doc="", cures=(), snippet="", changes_numbers="", rank=1, environment=lambda _: {}, of=of)
    said = _of_another_kind(fix, facts)
    assert said is None if why is None else str(said).startswith(why)


def test_the_body_of_the_outer_loop_is_found_though_the_loop_inside_it_ran_first() -> None:
    found: list[str] = []

    def layer(number: int) -> int:
        return number + 1

    def forward() -> int:
        return sum(layer(number) for number in range(50)) + [layer(number) for number in range(9)][-1]

    def once() -> None:
        for _ in range(5):
            forward()

    looking = Looking(lambda code: found.append(code.co_name))
    once()
    looking.stop()
    assert found == ["forward"]


def test_only_what_is_jumped_back_over_stands_in_a_loop() -> None:
    def code(x: int) -> int:
        before = abs(x)
        while x > 0:
            x -= abs(x)
        return before + abs(x)

    calls = [one.offset for one in dis.get_instructions(code.__code__) if one.opname.startswith("CALL")]
    assert [in_loop(code.__code__, at) for at in calls] == [False, True, False]
