"""Functions that the script makes of its own with `jax.grad` and its like, and each of their calls.

Where they are not compiled, JAX writes and runs one small program for each operation of the derivative: their calls are
steps as those of the function itself would be, which is only looked at meanwhile.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled, Function, Heard, own_code, unheard, wraps
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.capture.child.users_function import key_of

MAKERS = ("grad", "value_and_grad", "vmap", "jacfwd", "jacrev", "hessian")


def listen(jax: Any, heard: Heard, is_computing: Callable[[], bool]) -> Undo:
    """Have all calls of functions that are made from now on made by `heard`; returns what ends that."""
    undo = [replaced(jax, name, functools.partial(_listening, name, heard, is_computing)) for name in MAKERS]

    def end() -> None:
        for one in undo:
            one()

    return end


def _listening(name: str, heard: Heard, is_computing: Callable[[], bool], make: Callable[..., Any]) -> Any:
    last: list[tuple[Callable[[], Any], Any, Any]] = []
    """Of what was made last: the function, the options, the outcome. A loop that makes the same anew gets the same."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        function, *more = map(unheard, args) if args else (None,)
        options = more, kwargs
        if last and last[0][0]() is function and _same(last[0][1], options):
            return last[0][2]
        given = make(*args, **kwargs) if function is None else make(function, *more, **kwargs)
        code = own_code(given)
        if code is None:
            return given
        known = Compiled(given, f"{key_of(code)} by {name}", Function.derived(name, code))
        ours = _heard(known, heard, is_computing)
        try:
            last[:] = [(weakref.ref(function), options, ours)]
        except TypeError:  # nothing that can be referred to weakly
            last.clear()
        return ours

    return made


def _heard(known: Compiled, heard: Heard, is_computing: Callable[[], bool]) -> Callable[..., Any]:
    real = known.real

    def call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return heard(known, args, kwargs) if is_computing() else real(*args, **kwargs)

    return wraps(real, call)


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # arrays among them
        return False
