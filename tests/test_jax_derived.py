"""Functions that a JAX script makes with `jax.grad` and its like: their calls are steps, compiling them is tried."""

from __future__ import annotations

import gc
import textwrap
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.child import jax_derived, jax_jitted
from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled
from profiler_doctor.analyzer.capture.child.jax_session import JaxMarks
from profiler_doctor.analyzer.capture.child.jax_steps import Looking
from profiler_doctor.analyzer.capture.environment import machine
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.verbs.choice import every_rule
from tests.test_jax_jitted import marks_of_a_run

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
jax: Any = pytest.importorskip("jax")
jnp = jax.numpy
MACHINE = Machine(device="cpu", torch=None, cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)


@pytest.fixture
def marks() -> Iterator[JaxMarks]:
    """The marks of a run, which hear what is compiled and made."""
    marks = marks_of_a_run()
    stops = jax_jitted.listen(jax, marks.compiled), jax_derived.listen(jax, marks.compiled, marks.is_computing)
    yield marks
    if marks.looking is not None:
        marks.looking.stop()
    for stop in stops:
        stop()


@pytest.fixture
def heard() -> Iterator[list[Compiled]]:
    """All calls that are heard."""
    calls: list[Compiled] = []

    def note(one: Compiled, args: Any, kwargs: Any) -> Any:
        calls.append(one)
        return one.real(*args, **kwargs)

    stops = jax_jitted.listen(jax, note), jax_derived.listen(jax, note, jax._src.core.trace_state_clean)
    yield calls
    for stop in stops:
        stop()


def loss(x: Any, times: int = 1) -> Any:
    return (x * x * times).sum()


def test_each_call_outside_of_tracing_is_heard_by_the_makers_and_the_functions_name(heard: list[Compiled]) -> None:
    x = jnp.arange(3.0)
    assert float(jax.grad(loss)(x)[2]) == 4
    assert float(jax.value_and_grad(loss)(x, times=2)[0]) == 10
    assert jax.vmap(loss)(jnp.ones((5, 3))).shape == (5,)
    assert float(jax.hessian(lambda y: loss(y, 1))(x)[0, 0]) == 2
    assert [one.function.name for one in heard] == [
        "grad(loss)", "value_and_grad(loss)", "vmap(loss)", "hessian(a function without a name)",
    ]  # fmt: skip
    assert len({one.key for one in heard}) == 4
    assert heard[0].function.line == loss.__code__.co_firstlineno
    jax.vmap(jax.grad(loss))(jnp.ones((5, 3)))
    assert [one.function.name for one in heard[4:]] == ["vmap(loss)"]
    jax.make_jaxpr(jax.grad(loss))(x)
    assert len(heard) == 5
    with pytest.raises(TypeError):
        jax.grad(loss)(x, 1, "too many")


class Model:
    """Something whose methods, and which itself, can be differentiated."""

    weight = 2.0

    def loss(self, x: Any) -> Any:
        return (x * self.weight).sum()

    __call__ = loss


@jax.custom_vjp
def sevenfold(x: Any) -> Any:
    return x * 2


sevenfold.defvjp(lambda x: (sevenfold(x), None), lambda _, slope: (slope * 7,))
USES: dict[str, Any] = {
    "two arguments": lambda x: jax.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x + 1),
    "by name": lambda x: jax.grad(fun=loss)(x),  # noqa: PLW0108  # made while it listens
    "more than the value": lambda x: jax.value_and_grad(lambda a: ((a * a).sum(), {"a": a}), has_aux=True)(x),  # noqa: PLW0108  # made while it listens
    "partial": lambda x: jax.grad(partial(loss, times=3))(x),  # noqa: PLW0108  # made while it listens
    "method": lambda x: jax.grad(Model().loss)(x),  # noqa: PLW0108  # made while it listens
    "object": lambda x: jax.grad(Model())(x),  # noqa: PLW0108  # made while it listens
    "its own rule": lambda x: jax.grad(sevenfold)(x[1]),
    "nested": lambda x: jax.vmap(jax.grad(jax.grad(lambda y: y**3)))(x),  # noqa: PLW0108  # made while it listens
    "axes": lambda x: jax.vmap(lambda d, f: d["a"] * f, in_axes=({"a": 0}, None))({"a": x}, 3),
    "another closure each time": lambda x: [jax.grad(lambda y, n=n: (y * n).sum())(x) for n in (1.0, 2.0)],
    "in a scan": lambda x: jax.lax.scan(lambda c, t: (c + jax.grad(lambda u: u**2)(t), c), 0.0, x),
    "static": lambda x: jax.jit(jax.grad(loss), static_argnames="times")(x, times=2),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_answers_are_those_without_us(use: Any, heard: list[Compiled]) -> None:  # it listens
    listening = use(jnp.arange(3.0))
    with pytest.MonkeyPatch.context() as patch:
        for name in jax_derived.MAKERS:
            patch.setattr(jax, name, getattr(jax, name).__wrapped__)
        expected = use(jnp.arange(3.0))
    assert jax.tree.all(jax.tree.map(lambda one, other: bool(jnp.array_equal(one, other)), listening, expected))


def test_what_is_compiled_is_what_jax_made_and_is_heard_as_compiled(heard: list[Compiled]) -> None:
    gradient = jax.grad(loss)
    assert gradient.__name__ == jax_jitted.unheard(gradient).__name__
    quick = jax.jit(gradient)
    assert float(quick(jnp.ones(2))[0]) == 2
    assert [(one.function.name, one.function.jitted) for one in heard] == [("loss()", True)]
    assert quick.__wrapped__ is jax_jitted.unheard(gradient)
    assert quick.__wrapped__ is not gradient


def test_what_is_made_anew_is_known_to_be_of_the_same(heard: list[Compiled]) -> None:
    def of(make: Any) -> Any:
        make(jnp.ones(2))
        return heard[-1].of

    assert of(jax.grad(loss)) is of(jax.grad(loss)) is not None
    assert of(jax.grad(loss)) is not of(jax.grad(loss, argnums=(0,)))
    assert of(jax.grad(loss)) is not of(jax.value_and_grad(loss))
    assert of(jax.grad(lambda x: x.sum())) is not of(jax.grad(lambda x: x.sum()))
    assert of(jax.vmap(loss, in_axes=[0])) is not None
    assert of(jax.vmap(loss, axis_size=numpy.int64(2))) is None


def test_each_one_made_is_an_object_of_its_own_and_keeps_nothing_alive() -> None:
    stop = jax_derived.listen(jax, lambda one, args, kwargs: one.real(*args, **kwargs), lambda: True)
    first, second = jax.grad(loss), jax.grad(loss)
    assert first is not second
    assert first.__wrapped__ is loss

    def other(x: Any) -> Any:
        return x * 2

    gone = weakref.ref(other)
    made = jax.grad(other)
    del made, other
    gc.collect()
    assert gone() is None
    stop()


def test_a_loop_that_compiles_a_gradient_anew_compiles_each_as_without_us(heard: list[Compiled]) -> None:
    traced: list[int] = []

    def counted(x: Any) -> Any:
        traced.append(1)
        return x * x

    for _ in range(3):
        jax.jit(jax.grad(counted))(3.0)
    assert len(traced) == 3
    assert len(heard) == 3


def test_what_a_package_makes_of_its_own_functions_is_not_heard(heard: list[Compiled]) -> None:
    assert float(jax.grad(jnp.sum)(jnp.ones(2))[0]) == 1
    assert not heard


def test_the_gradient_that_a_loop_asks_for_is_its_body_and_one_in_a_function_is_not(marks: JaxMarks) -> None:
    marks.looking = Looking(marks.found)
    x = jnp.ones(3)
    for _ in range(6):
        x = jax.tree.map(lambda a, b: a - 0.1 * b, x, jax.grad(loss)(x))
    assert marks.source is not None
    assert marks.source.words == "calls of grad(loss)"
    assert marks.calls == 3


def test_a_function_around_it_is_the_body(marks: JaxMarks) -> None:
    def update(x: Any) -> Any:
        return x - 0.1 * jax.grad(loss)(x)

    marks.looking = Looking(marks.found)
    x = jnp.ones(3)
    for _ in range(6):
        x = update(x)
    assert marks.source is not None
    assert marks.source.words == "calls of update()"


def test_the_same_gradient_is_treated_at_each_call_and_one_of_another_function_is_not(marks: JaxMarks) -> None:
    seen: list[str] = []

    def treated(root: Any) -> Any:
        return lambda *args, **kwargs: (seen.append("ours"), root.call(*args, **kwargs))[1]

    marks.looking = Looking(marks.found)
    marks.conductor = SimpleNamespace(on_root_call=treated, on_boundary=lambda *_: None)  # type: ignore[assignment]
    x = jnp.ones(3)
    for _ in range(5):
        jax.grad(loss)(x)
    assert seen == ["ours"] * 2


SCRIPT = """
    import jax
    import jax.numpy as jnp

    def loss(weights, x):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        {special}
        return x.mean()

    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(jax.random.fold_in(key, n), (16, 16)) for n in range(8)]
    x = jax.random.normal(key, (4, 16))
    while True:
        slopes = jax.grad(loss)(weights, x)
        weights = jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes)
"""


def _recorded(folder: Path, special: str = "pass") -> tuple[Target, Captured]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT).format(special=special), encoding="utf-8")
    target = Target(script=str(script))
    return target, capture(target, Options(budget=Budget.start(120.0, verify=True)))


def _tried(folder: Path, target: Target, captured: Captured, budget_s: float) -> Trial:
    logs = folder / "trials"
    logs.mkdir()
    program = Program(target=target, folder=logs, source=captured.source, machine=MACHINE)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + int(budget_s * 1e9))
    (trial,) = trials(request, [fix for fix in find("profiler_doctor.fixes", Fix).items if fix.name == "jax-jit"])
    return trial


@pytest.mark.slow
def test_a_training_loop_without_a_function_is_found_and_compiling_its_gradient_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target, captured = _recorded(tmp_path)
    assert captured.source is not None
    assert captured.source.words == "calls of grad(loss)"
    assert captured.trace_file is not None
    found = examine(read(captured.trace_file).with_capture(captured.facts, None), every_rule())
    assert [one.code for one in found.outcomes if one.findings] == ["JAX001"]
    trial = _tried(tmp_path, target, captured, 150)
    assert trial.verdict == "verified", trial.reason
    assert trial.speedup is not None
    assert trial.speedup > 2
    assert trial.outputs_equal is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("special", "reason"),
    [
        ("x = x if x.sum() > 0 else x + 1", "TracerBoolConversionError"),
        ("print('step')", "what it prints"),
        ("import numpy; x = x * numpy.random.rand()", "the answers differ"),
    ],
)
def test_what_compiling_would_freeze_under_a_gradient_is_never_verified(
    tmp_path: Path, special: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target, captured = _recorded(tmp_path, special)
    trial = _tried(tmp_path, target, captured, 60)
    assert trial.verdict in ("rejected", "inconclusive")
    assert reason in trial.reason


def test_a_function_that_the_loop_makes_anew_is_not_treated_once_for_all() -> None:
    jax_facts = [JaxFacts(version="0.10", function="grad(loss)", objects=objects) for objects in (1, 40)]
    fixes = [fix for fix in find("profiler_doctor.fixes", Fix).items if fix.of == "jax"]
    for fix in fixes:
        once, anew = (fix.applies(replace(MACHINE, made_anew=machine(Facts(jax=one)).made_anew)) for one in jax_facts)
        assert once is None
        assert anew is not None
        assert "anew for each step" in anew
    assert len(fixes) == 2
