"""Functions that the script compiles with `jax.jit`, and each of their calls, which XLA would make past Python.

What `jax.jit` gives is an object of XLA's own that asks Python only where it has no program for a call yet. The script
is given a twin of it instead, which has no program for any call: it asks us each time, and we make the call with the
original. That takes 1.6 µs of a call's 8 (measured); everything else the two have in common.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import is_own_file, own_frames, own_place, short
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.capture.child.users_function import key_of

JITTED = "jitted"
"""The token of a call of a compiled function, where calls of one are steps."""
MAX_WRAPPERS = 8
"""Functions around functions that are looked through for the user's own."""
NAMELESS, UNNAMED = "<lambda>", "a function without a name"
"""What Python calls one, and a sentence."""


@dataclass(frozen=True)
class Function:
    """What a function of the user's is called, and where it stands."""

    name: str
    """As a sentence has it: "update()"."""
    file: str
    line: int
    jitted: bool = False

    @staticmethod
    def of(code: CodeType) -> Function:
        """The function of this code."""
        return Function(_called(code.co_name), short(code.co_filename), code.co_firstlineno)

    @staticmethod
    def derived(maker: str, code: CodeType) -> Function:
        """What `jax.grad`, or another such maker, makes of the function of this code."""
        name = UNNAMED if code.co_name == NAMELESS else code.co_name
        return Function(f"{maker}({name})", short(code.co_filename), code.co_firstlineno)


@dataclass(frozen=True, eq=False)
class Compiled:
    """One function that the script compiled, or had JAX make of another (`jax_derived.py`)."""

    real: Callable[..., Any]
    """The original: what `jax.jit` gave."""
    key: str
    """The same in every run of the program, for one compiled anew as well; another for the gradient of a function."""
    function: Function
    of: object | None = None
    """The same object for those that may take each other's place, though the script makes them anew; None: for none."""


_ORIGINALS: weakref.WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = weakref.WeakKeyDictionary()
"""Functions of ours that the script was given → what they stand for."""
Heard = Callable[[Compiled, tuple[Any, ...], Mapping[str, Any]], Any]
"""Makes a call of a compiled function, and gives what it gave."""


def listen(jax: Any, heard: Heard) -> Undo:
    """Have all calls of functions that are compiled from now on made by `heard`; returns what ends that."""

    def listening(jit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(jit)
        def made(*args: Any, **kwargs: Any) -> Any:
            args = tuple(map(unheard, args))
            given = jit(*args, **kwargs)
            if type(given) is FunctionType and not args:  # `@jax.jit(static_argnums=0)`: the function comes later
                return lambda *later, **more: twin(given(*later, **more), heard, sys._getframe(1))
            return twin(given, heard, sys._getframe(1))

        return made

    return replaced(jax, "jit", listening)


def stand_in(real: Callable[..., Any], call: Callable[[tuple[Any, ...], Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """A function to give the script in the place of `real`, by whose name it goes; `call` makes its calls."""

    @functools.wraps(real)
    def ours(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    if hasattr(real, "__wrapped__"):
        ours.__wrapped__ = real.__wrapped__  # the user's function, as without us
    _ORIGINALS[ours] = real
    return ours


def unheard(given: Any) -> Any:
    """What a function of ours stands for, anything else as it is: what is made of it is heard by itself."""
    return _ORIGINALS.get(given, given) if type(given) is FunctionType else given


def twin(real: Any, heard: Heard, maker: Any) -> Any:
    """The compiled function with its calls heard; as it is where it is none of the user's, or of a kind not known.

    `maker`: the frame that compiles it.
    """
    try:
        state, known = real.__getstate__(), _known(real, maker)
        if known is None or not {"fun", "cache_miss", "cache"} <= set(state):
            return real
        kind: Any = type(real)
        ours = kind.__new__(kind)
        cache = type(state["cache"])(1)  # programs of its own, for it is to find none
        ours.__setstate__(
            {**state, "cache_miss": lambda *args, **kwargs: (heard(known, args, kwargs), None), "cache": cache}
        )
        vars(ours).update(vars(real))
    except Exception:  # another version of JAX
        return real
    return ours


def _known(real: Any, maker: Any) -> Compiled | None:
    code = own_code(real)
    if code is not None:
        outer = getattr(getattr(real, "__wrapped__", None), "__code__", code)
        return Compiled(real, f"{key_of(code)} in {outer.co_name}", replace(Function.of(code), jitted=True))
    if _importing(maker):
        return None
    file, line = own_place(maker)
    name = str(getattr(real, "__name__", NAMELESS))
    return Compiled(real, f"{file}:{line}:{name}", Function(_called(name), file, line, jitted=True))


def own_code(function: Any) -> CodeType | None:
    """The code of the user's own function that is behind all that was put around it."""
    own = own_function(function)
    return own.__code__ if own is not None else None


def own_function(function: Any) -> FunctionType | None:
    """The user's own function that is behind all that was put around it."""
    for _ in range(MAX_WRAPPERS):
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif type(function) is FunctionType and is_own_file(function.__code__.co_filename):
            return function
        else:
            function = getattr(function, "__wrapped__", None)
    return None


def _importing(maker: Any) -> bool:
    """Whether a package that is being imported compiles a function of its own."""
    own = next(own_frames(maker), None)
    while maker is not None and maker is not own:
        if maker.f_code.co_name == "<module>":
            return True
        maker = maker.f_back
    return own is None


def _called(name: str) -> str:
    return UNNAMED if name == NAMELESS else f"{name}()"
