"""Compute all samples of a batch at once, with `jax.vmap`, where a loop goes over them one by one.

What it does: in the functions that a step goes through, each loop over samples that carries nothing from one to the
next (a comprehension, a sum, a loop that appends) is rewritten in memory: its body becomes a function of one sample,
and `jax.vmap` of that is called once. What the loop goes over has to be an array, or a list of arrays of one shape.

When it applies: to loops in a function that is called step after step, or in one that it calls. A loop in the script's
own main part is not rewritten while it runs. Branches on values of a sample make it fail, as they do under `jit`;
prints and NumPy's random numbers are made once and not for each sample, and the trial says so.

How results may change: by rounding (1e-6 in float32), for sums are made in another order.

Source: JAX's documentation, "Automatic vectorization".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_samples import Passed, SampleWatch, jitted_anew, look_into, watched
from profiler_doctor.analyzer.capture.child.sample_loops import rewritten
from profiler_doctor.analyzer.capture.child.users_function import functions_of
from profiler_doctor.analyzer.kinds import Fix, Root, Unsuitable
from profiler_doctor.fixes._jax import on_one_function
from profiler_doctor.fixes._mapped import Mapped
from profiler_doctor.fixes._standin import Standin

NO_LOOP = "no function that makes the steps holds a loop over samples that carries nothing from one to the next"

Rewritten = Sequence[tuple[FunctionType, CodeType]]
"""Functions, and the code that they are to have."""


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    if not hasattr(root.module, "jitted"):  # a module of torch, and no function
        raise Unsuitable("no function of the script's own makes the steps")
    import jax

    passed, mapped = _passed(jax, root), Mapped(jax)
    anew = [pair for holder in {one.holder for one in passed} for pair in _rewritten(holder, passed, mapped)]
    if not anew:
        raise Unsuitable(NO_LOOP)
    call = _with(anew, jitted_anew(jax, root.call) if root.module.jitted else root.call)
    call(*root.args, **root.kwargs)
    if not mapped.mapped:
        raise Unsuitable(f"its loop {mapped.left}" if mapped.left else NO_LOOP)
    yield Standin(root.module, call, note=f"mapped {_told(passed)}")


def _passed(jax: Any, root: Root) -> tuple[Passed, ...]:
    watch = SampleWatch()
    if root.module.jitted:
        look_into(jax, root.call, root.args, root.kwargs, watch)
    else:
        watched(root.call, root.args, root.kwargs, watch)
    return watch.passed()


def _rewritten(holder: CodeType, passed: Sequence[Passed], mapped: Mapped) -> Rewritten:
    code = rewritten(holder, [one.loop for one in passed if one.holder is holder], mapped)
    return [(function, code) for function in functions_of(holder)] if code is not None else []


def _with(anew: Rewritten, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, with the functions' new code for as long as it lasts: what it is compared with has the old one."""
    old = [function.__code__ for function, _ in anew]

    @wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        for function, code in anew:
            function.__code__ = code
        try:
            return call(*args, **kwargs)
        finally:
            for (function, _), code in zip(anew, old, strict=True):
                function.__code__ = code

    return called


def _told(passed: Sequence[Passed]) -> str:
    return ", ".join(f"{one.calls} calls of {one.callee} in {one.loop.function}()" for one in passed)


FIX = Fix(
    name="jax-vmap",
    doc=__doc__,
    cures=("JAX002",),
    snippet="""\
outputs = jax.vmap(predict, in_axes=(None, 0))(params, xs)  # for [predict(params, x) for x in xs]
""",
    changes_numbers="by rounding (1e-6 in float32)",
    rank=5,
    applies=on_one_function,
    treat=_treat,
    of="jax",
)
