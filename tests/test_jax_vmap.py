"""Loops over samples in a JAX function: known by their form, counted while a call is made, and mapped by `jax-vmap`."""

from __future__ import annotations

import textwrap
import time
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from profiler_doctor.analyzer.capture.child import jax_samples
from profiler_doctor.analyzer.capture.child.jax_compare import JaxShadow
from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled, Function, listen
from profiler_doctor.analyzer.capture.child.jax_samples import SampleWatch, watched
from profiler_doctor.analyzer.capture.child.sample_loops import loops_in
from profiler_doctor.analyzer.capture.child.treat import in_order
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.fixes.jax_jit import FIX as JIT
from profiler_doctor.fixes.jax_vmap import FIX

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
jax: Any = pytest.importorskip("jax")
jnp = jax.numpy

MACHINE = Machine(device="cpu", torch=None, cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np

def one(p, x):
    return jnp.tanh(p @ x)

def pair(p, x):
    return {{"y": p @ x, "n": (x * x).sum()}}

"""
FORMS = {
    "stacked": "return jnp.stack([one(p, x) for x in xs])",
    "array": "return jnp.array([one(p, x) for x in xs])",
    "listed": "return [one(p, x) + 1 for x in xs]",
    "of dicts": "return [pair(p, x) for x in xs]",
    "summed": "return sum(one(p, x) for x in xs)",
    "numpy's stack": "return np.stack([one(p, x) for x in xs])",
    "by number": "return jnp.stack([one(p, xs[i]) for i in range(len(xs))])",
    "side by side": "return [one(p, x) * y.sum() for x, y in zip(xs, xs + 1)]",
    "over NumPy's rows": "rows = np.asarray(xs)\nreturn jnp.stack([one(p, x) for x in rows])",
    "over a list": "rows = list(xs)\nreturn jnp.stack([one(p, x) for x in rows])",
    "appended": "out = []\nfor x in xs:\n    y = one(p, x)\n    z = y * 2\n    out.append((y, z.sum()))\nreturn out",
    "in another function": "def inner(q):\n    return 0\nreturn jnp.stack([one(p, x) for x in xs]) + inner(p)",
}
OTHERS = {
    "what the next one needs": "for x in xs:\n    p = one(p, x)[:, None] * p\nreturn p",
    "a condition": "return [one(p, x) for x in xs if x.sum() > 0]",
    "a loop in a loop": "return [one(p, x) for x in xs for _ in range(2)]",
    "carried from turn to turn": "out, y = [], 0\nfor x in xs:\n    z = y\n    y = one(p, x)\n    out.append(z)",
    "used afterwards": "out = []\nfor x in xs:\n    y = one(p, x)\n    out.append(y)\nreturn out, y",
    "the list itself": "out = []\nfor x in xs:\n    out.append(one(p, x) + len(out))\nreturn out",
    "an end before the end": "out = []\nfor x in xs:\n    if x.sum() > 9:\n        break\n    out.append(one(p, x))",
    "added up in place": "t = 0\nfor x in xs:\n    t += one(p, x)\nreturn t",
    "named inside": "return [(y := one(p, x)) for x in xs]",
}


def _module(folder: Path, body: str, more: str = "") -> ModuleType:
    file = folder / "script.py"
    text = f"def step(p, xs):\n{textwrap.indent(body, '    ')}\n"
    file.write_text(HEAD.replace("{{", "{").replace("}}", "}") + text + textwrap.dedent(more), encoding="utf-8")
    spec = spec_from_file_location("script", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loops_in.cache_clear()
    return module


def _root(call: Any, *args: Any, jitted: bool = False) -> Root:
    return Root(Function("step()", "script.py", 11, jitted), args, {}, call)


def _products(call: Any, *args: Any) -> int:
    """Products of matrices in the program that a call becomes."""
    return str(jax.make_jaxpr(call, static_argnums=(2,) * (len(args) > 2))(*args)).count("dot_general")


P, XS = jnp.arange(12.0).reshape(3, 4) / 7, jnp.arange(20.0).reshape(5, 4) / 9


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_that_carries_nothing_is_mapped_and_the_answers_stay_the_same(tmp_path: Path, form: str) -> None:
    step = _module(tmp_path, FORMS[form]).step
    code, shadow = step.__code__, JaxShadow(jax, step, 0.0)
    assert FIX.treat is not None

    with FIX.treat(_root(step, P, XS)) as treated:
        _, same = shadow.compared(treated, (P, XS), {}, thorough=True)
        products = 1 if "np." in FORMS[form].replace("jnp", "") else _products(treated, P, XS)

    assert same.equal is True, same.reasons
    assert same.inputs == 2
    assert products == 1
    assert step.__code__ is code
    assert "mapped 5 calls of" in treated.note


@pytest.mark.parametrize("form", OTHERS)
def test_a_loop_that_carries_something_is_left_alone(tmp_path: Path, form: str) -> None:
    step = _module(tmp_path, OTHERS[form]).step
    assert FIX.treat is not None
    with pytest.raises(Unsuitable, match="holds a loop over samples"), FIX.treat(_root(step, P, XS)):
        pass


def test_the_loop_may_stand_in_a_method_that_the_step_calls(tmp_path: Path) -> None:
    more = """
        class Model:
            def __init__(self, p):
                self.p = p
            def one(self, x):
                return self.p @ x
            def all(self, xs):
                return jnp.stack([self.one(x) for x in xs])

        def outer(model, xs):
            return model.all(xs) * 2
    """
    module = _module(tmp_path, "return 0", more)
    model = module.Model(P)
    assert FIX.treat is not None
    with FIX.treat(_root(module.outer, model, XS)) as treated:
        assert jnp.allclose(treated(model, XS), 2 * XS @ P.T)
        assert treated.note == "mapped 5 calls of one() in all()"


def test_a_compiled_step_is_compiled_anew_with_its_static_arguments(tmp_path: Path) -> None:
    more = """
        @jax.jit
        def quick(p, xs):
            return jnp.stack([one(p, x) for x in xs])

        def powered(p, xs, power):
            return jnp.stack([one(p, x) ** power for x in xs])

        fixed = jax.jit(powered, static_argnames="power")
    """
    module = _module(tmp_path, "return 0", more)
    assert FIX.treat is not None
    for call, args in ((module.quick, (P, XS)), (module.fixed, (P, XS, 3))):
        with FIX.treat(_root(call, *args, jitted=True)) as treated:
            assert jnp.allclose(treated(*args), call(*args), rtol=1e-5)
            assert _products(treated.call, *args) == 1


def test_layers_of_different_shapes_and_things_that_are_no_arrays_are_gone_over_one_by_one(tmp_path: Path) -> None:
    step = _module(tmp_path, "return [one(q, xs) for q in p]").step
    assert FIX.treat is not None
    for layers in ([jnp.ones((2, 5)), jnp.ones((3, 5))] * 2, {"a": 1, "b": 2, "c": 3, "d": 4}):
        with pytest.raises((Unsuitable, TypeError)), FIX.treat(_root(step, layers, XS)):
            pass


def test_a_print_and_a_random_number_for_each_sample_are_missed(tmp_path: Path) -> None:
    more = """
        def loud(p, x):
            print("a sample")
            return p @ x

        def noisy(p, x):
            return p @ x * np.random.rand()

        def first(p, xs):
            return jnp.stack([loud(p, x) for x in xs])

        def second(p, xs):
            return jnp.stack([noisy(p, x) for x in xs])
    """
    module = _module(tmp_path, "return 0", more)
    assert FIX.treat is not None
    for call, reason in ((module.first, "what it prints"), (module.second, "it draws random numbers differently")):
        shadow = JaxShadow(jax, call, 0.0)
        with FIX.treat(_root(call, P, XS)) as treated:
            _, other = shadow.compared(treated, (P, XS), {}, thorough=False)
        assert other.equal is False
        assert reason in other.reasons


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("seen['n'] += 1", "it changes seen"),
        ("log.append(x)", "it changes log"),
        ("log[0] = 7", "it changes log"),
        ("counts[0] += 1", "it changes counts"),
        ("kept.add(len(kept))", "it changes kept"),
        ("global total; total = total + 1", "it changes total"),
        ("told.write('one')", "it may write to told"),
    ],
)
def test_what_a_sample_changes_outside_is_never_called_equal(tmp_path: Path, does: str, reason: str) -> None:
    more = f"""
        seen, log, kept, counts, total = {{"n": 0}}, [0], set(), np.zeros(2), 0
        told = open({str(tmp_path / "told")!r}, "w")

        def telling(p, x):
            {does}
            return p @ x

        def quiet(p, x):
            return p @ x + len(log) + seen["n"] + counts[0] + total

        def first(p, xs):
            return jnp.stack([telling(p, x) for x in xs])

        def second(p, xs):
            return jnp.stack([quiet(p, x) for x in xs])
    """
    module = _module(tmp_path, "return 0", more)

    found = [
        JaxShadow(jax, call, 0.0).compared(call, (P, XS), {}, thorough=False)[1]
        for call in (module.first, module.second)
    ]

    assert [one.equal for one in found] == [False, True]
    assert reason in found[0].reasons[-1]


def test_a_branch_on_a_sample_cannot_be_mapped(tmp_path: Path) -> None:
    step = _module(tmp_path, "return [one(p, x) if x.sum() > 1 else x for x in xs]").step
    assert FIX.treat is not None
    with pytest.raises(jax.errors.TracerBoolConversionError), FIX.treat(_root(step, P, XS)):
        pass


def test_loops_are_told_by_how_often_they_call_what_with_equal_shapes(tmp_path: Path) -> None:
    body = "a = [one(p, x) for x in xs]\nb = [one(p[:n], x) for n, x in zip((1, 2, 3, 1, 2), xs)]\nreturn a, b"
    step, watch = _module(tmp_path, body).step, SampleWatch()
    watched(step, (P, XS), {}, watch)
    [passed] = watch.passed()
    assert (passed.loop.function, passed.loop.line, passed.callee, passed.calls) == ("step", 12, "one()", 5)


def test_calls_of_a_compiled_function_are_counted_as_well(tmp_path: Path) -> None:
    def heard(one: Compiled, args: Any, kwargs: Any) -> Any:
        if SampleWatch.open is not None:
            SampleWatch.open.compiled(one, args, kwargs)
        return one.real(*args, **kwargs)

    stop = listen(jax, heard)
    try:
        module = _module(tmp_path, "return jnp.stack([quick(p, x) for x in xs])", "quick = jax.jit(one)")
    finally:
        stop()
    heard.__code__ = heard.__code__.replace(
        co_filename=jax_samples.__file__
    )  # as in the program: no frame of the user's
    module.step(P, XS)
    assert FIX.treat is not None
    with FIX.treat(_root(module.step, P, XS)) as treated:
        assert jnp.allclose(treated(P, XS), module.step(P, XS), rtol=1e-5)
        assert treated.note == "mapped 5 calls of one() in step()"
    assert SampleWatch.open is None


SCRIPT = """
    import jax
    import jax.numpy as jnp

    def predict(weights, x):
        for weight in weights:
            x = jnp.tanh(weight @ x)
        return x

    def step(weights, xs):
        return jnp.stack([predict(weights, x) for x in xs])

    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(jax.random.fold_in(key, n), (16, 16)) for n in range(3)]
    xs = jax.random.normal(key, (64, 16))
    while True:
        step(weights, xs).block_until_ready()
"""


@pytest.mark.slow
def test_a_loop_over_samples_is_verified_with_vmap(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    source = StepSource(kind="module", pattern=("function",), words="calls", function=f"{script}:10:step")
    logs = tmp_path / "trials"
    logs.mkdir()
    program = Program(target=Target(script=str(script)), folder=logs, source=source, machine=MACHINE)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 200 * 10**9)
    [trial] = trials(request, [FIX])
    assert trial.verdict == "verified", trial.reason
    assert trial.speedup is not None
    assert trial.speedup > 1.5
    assert trial.outputs_equal is True


def test_jit_around_the_mapped_loop_compiles_one_program(tmp_path: Path) -> None:
    step = _module(tmp_path, FORMS["stacked"]).step
    assert FIX.treat is not None
    assert JIT.treat is not None
    with FIX.treat(_root(step, P, XS)) as mapped, JIT.treat(_root(mapped.call, P, XS)) as both:
        assert jnp.allclose(both(P, XS), step(P, XS), rtol=1e-5)
        assert _products(both.call, P, XS) == 1
    assert [fix.name for fix in in_order((JIT, FIX))] == ["jax-vmap", "jax-jit"]
