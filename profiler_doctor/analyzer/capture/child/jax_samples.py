"""Which loops over samples a JAX function goes through in one call, and how often: seen while that call is made."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled
from profiler_doctor.analyzer.capture.child.own_code import JAXS_OWN, is_own_file, own_frames
from profiler_doctor.analyzer.capture.child.printing import Printing
from profiler_doctor.analyzer.capture.child.sample_loops import SampleLoop, loops_in
from profiler_doctor.analyzer.capture.child.shapes import Shapes

FEWEST = 4
"""Samples from which on a loop is told."""
MOST_SAMPLES = 4096
"""... and from which on no more are counted."""
COMPREHENSIONS = ("<listcomp>", "<genexpr>")


@dataclass(frozen=True)
class Passed:
    """One loop that a call went through."""

    loop: SampleLoop
    holder: CodeType
    """The code that the loop is part of."""
    callee: str
    """The user's function that was called for each sample: "predict()"."""
    calls: int


@dataclass
class _Seen:
    calls: int = 0
    shapes: Shapes = field(default_factory=Shapes)
    kinds: int = 0
    """How many kinds of arguments, by shapes and types."""


class SampleWatch:
    """While it is open, calls of the user's functions out of such loops are counted."""

    open: SampleWatch | None = None
    """The one that is open: calls of compiled functions, which Python does not see, are told it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[SampleLoop, CodeType, str], _Seen] = {}
        self._before: Any = None

    def __enter__(self) -> SampleWatch:
        self._before = sys.getprofile()
        sys.setprofile(self._look)
        SampleWatch.open = self
        return self

    def __exit__(self, *_: object) -> None:
        SampleWatch.open = None
        sys.setprofile(self._before)

    def compiled(self, one: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A compiled function is called."""
        caller = next(own_frames(sys._getframe(1)), None)
        if caller is not None:
            self._note(caller, one.function.name, [*args, *kwargs.values()])

    def passed(self) -> tuple[Passed, ...]:
        """The loops gone through often enough, each with the function that was called most, always for equal shapes."""
        most: dict[SampleLoop, Passed] = {}
        for (loop, holder, callee), seen in self._seen.items():
            known = most.get(loop)
            if seen.kinds == 1 and seen.calls >= FEWEST and (known is None or seen.calls > known.calls):
                most[loop] = Passed(loop, holder, callee, seen.calls)
        return tuple(most.values())

    def _look(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG002  # Python's own signature
        code, caller = frame.f_code, frame.f_back
        if event != "call" or caller is None or code.co_name in COMPREHENSIONS or not is_own_file(code.co_filename):
            return
        if loops_in(caller.f_code.co_filename):
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            self._note(caller, f"{code.co_name}()", [frame.f_locals.get(name) for name in given])

    def _note(self, caller: FrameType, callee: str, given: list[Any]) -> None:
        line, holder = caller.f_lineno, caller
        while holder.f_code.co_name in COMPREHENSIONS and holder.f_back is not None:
            holder = holder.f_back
        code = holder.f_code
        for loop in loops_in(code.co_filename):
            if loop.line <= line <= loop.end_line and loop.first_line == code.co_firstlineno:
                seen = self._seen.setdefault((loop, code, callee), _Seen())
                seen.calls += 1
                seen.kinds += seen.shapes.new(given, {})


@dataclass
class Row:
    """Calls of the function that makes the steps, out of one comprehension over an array: each step is a sample."""

    samples: int = 0
    """In all such comprehensions so far."""
    longest: int = 0
    """In one of them: in the first one some were called before that was known to be a step."""
    file: str = ""
    line: int = 0
    function: str = ""
    _frame: FrameType | None = None
    _here: int = 0

    def called(self, caller: FrameType | None) -> None:
        """One call of it. Outside of what we have seen enough of nothing is looked at."""
        own = next(own_frames(caller), None)
        if own is None or own.f_code.co_name not in COMPREHENSIONS or self.samples >= MOST_SAMPLES:
            return
        if own is not self._frame:
            if not _over_array(own.f_locals.get(".0")):
                return
            self._here = 0
            self.file, self.line, self._frame = own.f_code.co_filename, own.f_lineno, own
            self.function = own.f_back.f_code.co_name if own.f_back is not None else ""
        self.samples += 1
        self._here += 1
        self.longest = max(self.longest, self._here)
        if self.samples == MOST_SAMPLES:
            self._frame = None  # it may hold arrays


def _over_array(iterator: Any) -> bool:
    """Whether an iterator goes over an array's rows, or over numbers; the items of a list may be batches themselves."""
    made_by = getattr(getattr(iterator, "gi_code", None), "co_filename", "")
    return JAXS_OWN in made_by or type(iterator) in (type(iter(range(0))), type(iter(_Sequence())))


class _Sequence:
    """Python goes over NumPy's arrays as it goes over one of these."""

    def __getitem__(self, place: int) -> int:
        raise IndexError


def watched(call: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], watch: SampleWatch) -> Any:
    """Make a call of an uncompiled function, and see which loops it goes through."""
    with watch:
        return call(*args, **kwargs)


def look_into(jax: Any, compiled: Any, args: Any, kwargs: Mapping[str, Any], watch: SampleWatch) -> None:
    """The same of a compiled function, whose loops only tracing goes through: it is traced once more, unheard.

    Not where its file has no such loop. Raises what tracing raises.
    """
    code = getattr(inspect.unwrap(compiled), "__code__", None)
    if code is None or not loops_in(code.co_filename):
        return
    with Printing(False), watch:
        jitted_anew(jax, compiled).lower(*args, **kwargs)


def jitted_anew(jax: Any, compiled: Any) -> Any:
    """A compiled function compiled once more, with the same static arguments; it gives nothing away."""
    function, about = compiled._fun, compiled._jit_info

    @functools.wraps(function)
    def other(*args: Any, **kwargs: Any) -> Any:  # JAX keeps what it traced, for each function
        return function(*args, **kwargs)

    return jax.jit(other, static_argnums=about.static_argnums, static_argnames=about.static_argnames)
