"""Compile the function that makes the steps, with `jax.jit`.

What it does: it puts `jax.jit` around the script's own function that is called step after step. Arguments that hold no
arrays or numbers (text, functions, configurations) become static; whole numbers and truth values too, where the
function cannot be traced otherwise.

When it applies: to functions of arrays that are the same program at each call and are not compiled yet. What tracing
freezes (branches on values, counters, prints, NumPy's random numbers) makes it fail or answer differently, and the
trial says so.

How results may change: by rounding (1e-6 in float32), for operations are fused.

Source: JAX's documentation, "Just-in-time compilation".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Root, Unsuitable
from profiler_doctor.fixes._jax import on_one_function
from profiler_doctor.fixes._standin import Standin


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    if not hasattr(root.module, "line"):  # a module of torch, and no function
        raise Unsuitable("no function of the script's own makes the steps")
    if root.module.jitted:
        raise Unsuitable("the function that makes the steps is compiled already; what is around it is not a function")
    import jax

    static = _static(jax, root, numbers=False)
    try:
        jitted = _jitted(jax, root, static)
    except jax.errors.ConcretizationTypeError:
        static = _static(jax, root, numbers=True)
        jitted = _jitted(jax, root, static)
    yield Standin(root.module, jitted, note=f"static: {', '.join(static)}" if static else "")


def _jitted(jax: Any, root: Root, static: list[str]) -> Callable[..., Any]:
    """Raises what tracing raises."""
    jitted: Callable[..., Any] = jax.jit(root.call, static_argnames=static)
    jax.eval_shape(jitted, *root.args, **root.kwargs) if not static else jitted.lower(*root.args, **root.kwargs)  # type: ignore[attr-defined]  # what jit gives
    return jitted


def _static(jax: Any, root: Root, *, numbers: bool) -> list[str]:
    """Names of the arguments that cannot be traced. Raises Unsuitable where one has no name, or no hash."""
    return [name for name, value in _named(root).items() if _is_static(jax, name, value, numbers)]


def _named(root: Root) -> Mapping[str, Any]:
    bound = inspect.signature(root.call).bind(*root.args, **root.kwargs)
    return bound.arguments


def _is_static(jax: Any, name: str, value: Any, numbers: bool) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    traceable = all(hasattr(leaf, "dtype") or isinstance(leaf, int | float | complex) for leaf in leaves)
    if traceable and not (numbers and isinstance(value, int)):
        return False
    try:
        hash(value)
    except TypeError as error:
        kind = type(value).__name__
        raise Unsuitable(f"its argument {name} ({kind}) is neither made of arrays nor can it be static") from error
    return True


FIX = Fix(
    name="jax-jit",
    doc=__doc__,
    cures=("JAX001",),
    snippet="""\
step = jax.jit(step)  # your own function, or jax.grad(loss); static_argnames=("mode",) for what is no array
""",
    changes_numbers="by rounding (1e-6 in float32)",
    rank=COMPILER_RANK,
    applies=on_one_function,
    treat=_treat,
    excludes=ENGINE,
    of="jax",
)
