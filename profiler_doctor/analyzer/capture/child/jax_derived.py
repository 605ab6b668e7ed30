"""Functions that the script makes of its own with `jax.grad` and its like, and each of their calls.

Where they are not compiled, JAX writes and runs one small program for each operation of the derivative: their calls are
steps as those of the function itself would be, which is only looked at meanwhile.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled, Function, Heard, own_code, stand_in, unheard
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
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        given = tuple(map(unheard, args))
        real = make(*given, **kwargs)
        code = own_code(real)
        if code is None or not given:
            return real
        function = Function.derived(name, code)
        known = Compiled(real, f"{key_of(code)} by {name}", function, of=_token(name, given, kwargs))
        return _heard(known, heard, is_computing)

    return made


def _heard(known: Compiled, heard: Heard, is_computing: Callable[[], bool]) -> Callable[..., Any]:
    real = known.real

    def call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return heard(known, args, kwargs) if is_computing() else real(*args, **kwargs)

    return stand_in(real, call)


_TOKENS: weakref.WeakKeyDictionary[Any, dict[str, object]] = weakref.WeakKeyDictionary()
"""Function → what was made of it, and with which options → what all that is made so has in common."""


def _token(name: str, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object | None:
    """One object for all that is made of the same function with the same options, in a loop that makes it anew; None:
    it cannot be known to be the same."""
    function, *more = given
    options = [*more, *sorted(kwargs.items())]
    if not _is_plain(options):
        return None
    try:
        return _TOKENS.setdefault(function, {}).setdefault(f"{name} {options}", object())
    except TypeError:  # nothing that can be referred to weakly
        return None


def _is_plain(value: Any) -> bool:
    """Whether a value is told by how it is written, now and later."""
    inner = type(value) in (list, tuple)
    return all(map(_is_plain, value)) if inner else value is None or type(value) in (int, bool, str)
