"""Which function of the user's own is a loop's body, found while a JAX script runs.

Until it is found every call of Python is seen, which slows Python down; what has been compiled by XLA is not slowed,
and calls of it are told us (`jax_jitted.py`). Whether a call stands in a loop is read in its caller's bytecode, so that
the body of the outer loop is known before the loops inside it have run many times.
"""

from __future__ import annotations

import dis
import sys
import time
from collections.abc import Callable
from functools import cache
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.jax_jitted import Compiled
from profiler_doctor.analyzer.capture.child.own_code import JAXS_OWN, OURS, is_own_file
from profiler_doctor.analyzer.capture.child.users_function import NOT_STEPS

CALLS = 3
"""Calls from which on a loop is believed to go round."""
PATIENCE_NS = 5_000_000_000
"""An outer loop whose body takes longer than this leaves the steps to the loops inside it: it counts epochs."""

Found = Callable[[CodeType | Compiled], None]


class Looking:
    """A profile function of Python's; `found` is told what the loop's body is at one of its calls."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._calls: dict[CodeType | str, int] = {}
        self._open: list[tuple[object, int]] = []
        """What is under way that was called in a loop (a frame, a compiled function), and since when (ns)."""
        self._thread = get_ident()
        self.over = False
        self._before = sys.getprofile()
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: Any, arg: Any) -> None:
        """One call or return of anything; what is not the user's own is let by."""
        if self._before is not None:
            self._before(frame, event, arg)
        caller = frame.f_back
        if event == "call" and caller is not None and _may_be_a_step(frame.f_code) and _loops(caller):
            self._called(frame, frame.f_code)
        elif event == "return":
            self._returned(frame)

    def stop(self) -> None:
        """See nothing any more."""
        self.over = True
        before = self._before
        if sys.getprofile() is self:
            sys.setprofile(before)

    def compiled(self, function: Compiled, make: Callable[[], Any]) -> Any:
        """A call of a compiled function, which is made in here."""
        if self.over or get_ident() != self._thread:
            return make()
        if called_in_loop(sys._getframe(1)):
            self._called(function, function.key)
        try:
            return make()
        finally:
            self._returned(function)

    def _called(self, what: FrameType | Compiled, key: CodeType | str) -> None:
        now_ns = time.perf_counter_ns()
        outer_ns = min((began_ns for _, began_ns in self._open), default=now_ns)
        self._calls[key] = self._calls.get(key, 0) + 1
        outermost = not self._open or now_ns - outer_ns > PATIENCE_NS
        self._open.append((what, now_ns))
        if outermost and self._calls[key] >= CALLS:
            self.stop()
            self._found(what if isinstance(what, Compiled) else what.f_code)

    def _returned(self, what: object) -> None:
        if self._open and self._open[-1][0] is what:
            self._open.pop()


def called_in_loop(frame: FrameType | None) -> bool:
    """Whether a compiled function is called in a loop here: one of the user's own, whatever package is in between, or
    of what times it. JAX's own loops go over the leaves of a tree."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OURS):
            if in_loop(frame.f_code, frame.f_lasti):
                return _loops(frame)
            if is_own_file(frame.f_code.co_filename):
                return False
        frame = frame.f_back
    return False


def _loops(caller: FrameType) -> bool:
    return JAXS_OWN not in caller.f_code.co_filename and in_loop(caller.f_code, caller.f_lasti)


@cache
def in_loop(code: CodeType, at: int) -> bool:
    """Whether the instruction at this offset is jumped back over: it stands in a loop."""
    jumps = (
        (instruction.argval, instruction.offset)
        for instruction in dis.get_instructions(code)
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
    )
    return any(target <= at < offset for target, offset in jumps if target < offset)


@cache
def _may_be_a_step(code: CodeType) -> bool:
    named = not code.co_name.startswith("<")  # a comprehension's function lives only as long as its call
    return named and is_own_file(code.co_filename) and not code.co_flags & NOT_STEPS
