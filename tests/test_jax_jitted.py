"""Functions that a JAX script has compiled: their calls are heard, are steps, and are made as without us."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Options
from profiler_doctor.analyzer.capture.child.jax_compare import JaxShadow
from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled, Function, listen
from profiler_doctor.analyzer.capture.child.jax_observe import JaxObserve
from profiler_doctor.analyzer.capture.child.jax_samples import Row
from profiler_doctor.analyzer.capture.child.jax_session import JaxMarks
from profiler_doctor.analyzer.capture.child.jax_steps import Looking
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import Plan, StepSource
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.kinds import Root, Unsuitable
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.reading import read
from profiler_doctor.fixes.jax_jit import FIX as JIT
from profiler_doctor.rules.unjitted_function import RULE
from tests.asking import ask

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
jax: Any = pytest.importorskip("jax")
jnp = jax.numpy


class Heard:
    """All calls of compiled functions while it listens."""

    def __init__(self) -> None:
        self.calls: list[Compiled] = []

    def __call__(self, one: Compiled, args: Any, kwargs: Any) -> Any:
        self.calls.append(one)
        return one.real(*args, **kwargs)


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    stop = listen(jax, listener)
    yield listener
    stop()


def scaled(x: Any, times: int = 2) -> Any:
    return x * times


def test_each_call_of_a_compiled_function_is_heard_and_all_else_is_as_jax_made_it(heard: Heard) -> None:
    quick = jax.jit(scaled, static_argnames="times")
    x = jnp.arange(3.0)

    assert [float(quick(x, times=n).sum()) for n in (2, 2, 3)] == [6, 6, 9]
    assert len(heard.calls) == 3
    assert {one.function.name for one in heard.calls} == {"scaled()"}
    assert heard.calls[0].function.line == scaled.__code__.co_firstlineno
    assert quick.__name__ == "scaled"
    assert float(quick.lower(x).compile()(x).sum()) == 6
    assert float(jax.grad(lambda y: quick(y).sum())(x)[0]) == 2
    assert jax.vmap(quick)(x).shape == (3,)
    assert float(jax.jit(lambda y: quick(y) + 1)(x)[1]) == 3
    with pytest.raises(TypeError):
        quick(x, "too", "many")


def test_methods_decorators_with_options_and_gradients_are_heard_by_the_users_own_function(heard: Heard) -> None:
    class Model:
        weight = 3.0

        @partial(jax.jit, static_argnums=0)
        def forward(self, x: Any) -> Any:
            return x * self.weight

    assert float(Model().forward(jnp.ones(1))[0]) == 3
    assert float(jax.jit(static_argnames="times")(scaled)(jnp.ones(1))[0]) == 2
    assert float(jax.jit(jax.grad(lambda x: x * x))(3.0)) == 6
    assert [one.function.name for one in heard.calls] == ["forward()", "scaled()", "a function without a name"]


def test_a_function_and_its_gradient_are_two_and_the_same_one_compiled_anew_is_one(heard: Heard) -> None:
    def loss(x: Any) -> Any:
        return x * x

    for compiled in (jax.jit(loss), jax.jit(jax.grad(loss)), jax.jit(loss)):
        compiled(2.0)
    first, gradient, again = (one.key for one in heard.calls)
    assert first == again
    assert first != gradient


def test_what_has_been_given_away_is_gone_as_without_us(heard: Heard) -> None:
    used_up = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(4)
    assert float(used_up(x)[0]) == 2
    assert x.is_deleted()
    assert len(heard.calls) == 1


def test_functions_compiled_by_packages_at_their_import_are_not_heard(
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "a_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import jax\nadd = jax.jit(lambda x: x + 1)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    import a_package  # type: ignore[import-not-found]

    assert float(a_package.add(1.0)) == 2
    assert not heard.calls
    sys.modules.pop("a_package")


def marks_of_a_run() -> JaxMarks:
    """The marks of a run that looks for its steps, which hear nothing yet."""
    session = SimpleNamespace(
        plan=Plan(mode="observe", folder=""),
        torch=jax,
        guarded=nullcontext,
        say=lambda *_, **__: None,
        sign_of_life=lambda *_: None,
    )
    return JaxMarks(session)  # type: ignore[arg-type]  # what it uses of one


@pytest.fixture
def marks() -> Iterator[JaxMarks]:
    """The same, which hear what is compiled."""
    marks = marks_of_a_run()
    stop = listen(jax, marks.compiled)
    yield marks
    if marks.looking is not None:
        marks.looking.stop()
    stop()


def test_a_compiled_function_called_in_a_loop_is_its_body_also_where_it_was_traced_before(marks: JaxMarks) -> None:
    quick = jax.jit(scaled)
    x = quick(jnp.ones(2))
    marks.looking = Looking(marks.found)
    quick(x)  # outside of any loop
    for _ in range(7):
        x = quick(x)
    assert marks.source is not None
    assert (marks.source.words, marks.source.pattern) == ("calls of scaled()", ("jitted",))
    assert marks.calls == 4  # three in a loop make it known

    later = jax.jit(scaled)
    later(x)
    jax.make_jaxpr(later)(x)  # only looked at
    assert marks.calls == 5


def test_a_later_run_sees_the_calls_of_the_function_that_was_found_from_the_first_one_on(marks: JaxMarks) -> None:
    other, quick = jax.jit(lambda x: x), jax.jit(scaled)
    key = f"{__file__}:{scaled.__code__.co_firstlineno}:scaled in scaled"
    marks.hear(StepSource(kind="module", pattern=("jitted",), function=key))
    for _ in range(3):
        other(quick(1.0))
    assert marks.calls == 3


def test_a_compiled_function_that_jax_calls_for_each_leaf_of_a_tree_is_no_loops_body(marks: JaxMarks) -> None:
    quick = jax.jit(scaled)
    marks.looking = Looking(marks.found)
    for _ in range(5):
        jax.tree.map(quick, [1.0, 2.0, 3.0])
    assert marks.source is None


def test_a_python_function_around_compiled_ones_is_the_body(marks: JaxMarks) -> None:
    quick, slow = jax.jit(scaled), jax.jit(lambda x: x - 1)

    def step(x: Any) -> Any:
        for _ in range(4):
            x = quick(x)
        return slow(x)

    marks.looking = Looking(marks.found)
    for _ in range(5):
        step(jnp.ones(2))
    assert marks.source is not None
    assert (marks.source.words, marks.source.pattern) == ("calls of step()", ("function",))


def test_a_compiled_function_is_not_compiled_again() -> None:
    root = Root(Function("scaled()", "model.py", 3, jitted=True), (jnp.ones(2),), {}, jax.jit(scaled))
    assert JIT.treat is not None
    with pytest.raises(Unsuitable, match="compiled already"), JIT.treat(root):
        pass


def test_arguments_that_are_used_up_and_random_keys_can_be_compared() -> None:
    used_up = jax.jit(lambda state, key: (state + jax.random.normal(key, state.shape), key), donate_argnums=0)
    given = (jnp.ones(3), jax.random.key(1))
    output, same = JaxShadow(jax, used_up, 0.0).compared(used_up, given, {}, thorough=True)
    assert same.equal is True, same.reasons
    assert output[0].shape == (3,)

    given = (jnp.ones(3), jax.random.key(1))
    _, other = JaxShadow(jax, used_up, 0.0).compared(
        lambda state, key: (used_up(state, key)[0], jax.random.key(2)), given, {}, thorough=False
    )
    assert other.reasons == ("output[1]",)


SCRIPT = """
    import jax
    import jax.numpy as jnp

    @jax.jit
    def update(weights, x):
        def loss(weights):
            for weight in weights:
                h = jnp.tanh(x @ weight)
            return (h ** 2).mean()
        value, slopes = jax.value_and_grad(loss)(weights)
        return [weight - 0.01 * slope for weight, slope in zip(weights, slopes)], value

    weights = [jax.random.normal(jax.random.key(n), (128, 128)) for n in range(4)]
    x = jnp.ones((64, 128))
    weights, loss = update(weights, x)
    for _ in range({steps}):
        weights, loss = update(weights, x)
    print(float(loss))
"""


@pytest.mark.slow
def test_a_script_that_calls_a_compiled_function_has_steps_and_nothing_is_found_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT).format(steps=400), encoding="utf-8")
    captured = capture(Target(script=str(script)), Options(budget=Budget.start(60.0, verify=True)))
    assert captured.facts.jax is not None
    assert (captured.facts.jax.function, captured.facts.jax.line, captured.facts.jax.jitted) == ("update()", 5, True)
    assert captured.source is not None
    assert captured.source.words == "calls of update()"
    assert len(captured.facts.step_ns) > 100
    assert captured.trace_file is not None
    trace = read(captured.trace_file).with_capture(captured.facts, None)
    assert len(steps(trace)) == 5
    assert not ask(RULE, trace)


def test_kinds_of_shapes_and_functions_that_take_each_others_place_are_counted(marks: JaxMarks) -> None:
    session = SimpleNamespace(torch=jax, plan=Plan(mode="observe", folder=""))
    observe = JaxObserve(session, marks)  # type: ignore[arg-type]  # what it uses of one
    marks.conductor = SimpleNamespace(on_root_call=observe.on_root_call, on_boundary=lambda *_: None)  # type: ignore[assignment]
    marks.looking = Looking(marks.found)
    for rows in range(1, 7):
        quick = jax.jit(scaled)
        quick(jnp.ones(rows // 2))
    assert marks.calls == 3  # with 2, 2 and 3 rows
    assert (len(observe._shapes), observe._objects) == (2, 3)


def test_calls_out_of_a_comprehension_over_an_array_are_samples_and_those_over_a_list_may_be_batches() -> None:
    row = Row()

    def called(_: Any) -> None:
        row.called(sys._getframe(1))

    xs = jnp.ones((5, 2))
    for _ in range(3):
        [called(x) for x in [*xs]]
        [called(x) for x, _ in zip(xs, xs, strict=True)]
        called(xs)
    assert row.samples == 0
    for many in (xs, xs, [0] * 0, range(2)):
        [called(x) for x in many]
    assert (row.longest, row.samples, row.file) == (5, 12, __file__)
    import numpy

    [called(x) for x in numpy.ones(4)]
    assert (row.longest, row.samples) == (5, 16)
    assert (
        row.function
        == "test_calls_out_of_a_comprehension_over_an_array_are_samples_and_those_over_a_list_may_be_batches"
    )
