"""Which function of the user's own is a loop's body, found while a JAX script runs.

Until it is found every call of Python is seen, which slows Python down; what has been compiled by XLA is not slowed.
Whether a call stands in a loop is read in its caller's bytecode, so that the body of the outer loop is known before the
loops inside it have run many times.
"""

from __future__ import annotations

import dis
import sys
import time
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import is_own_file
from profiler_doctor.analyzer.capture.child.users_function import NOT_STEPS

CALLS = 3
"""Calls from which on a loop is believed to go round."""
PATIENCE_NS = 5_000_000_000
"""An outer loop whose body takes longer than this leaves the steps to the loops inside it: it counts epochs."""

Found = Callable[[CodeType], None]


class Looking:
    """A profile function of Python's; `found` is told the code of the loop's body at one of its calls."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._calls: dict[CodeType, int] = {}
        self._open: list[tuple[FrameType, CodeType, int]] = []
        """Functions under way that were called in a loop, and when (ns)."""
        self._before = sys.getprofile()
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: Any, arg: Any) -> None:
        """One call or return of anything; what is not the user's own is let by."""
        if self._before is not None:
            self._before(frame, event, arg)
        if event == "call" and _may_be_a_step(frame.f_code):
            self._called(frame)
        elif event == "return" and self._open and self._open[-1][0] is frame:
            self._open.pop()

    def stop(self) -> None:
        """See nothing any more."""
        before = self._before
        if sys.getprofile() is self:
            sys.setprofile(before)

    def _called(self, frame: FrameType) -> None:
        caller, code, now_ns = frame.f_back, frame.f_code, time.perf_counter_ns()
        if caller is None or not in_loop(caller.f_code, caller.f_lasti):
            return
        outer_ns = min((began_ns for _, _, began_ns in self._open), default=now_ns)
        self._calls[code] = self._calls.get(code, 0) + 1
        outermost = not self._open or now_ns - outer_ns > PATIENCE_NS
        self._open.append((frame, code, now_ns))
        if outermost and self._calls[code] >= CALLS:
            self.stop()
            self._found(code)


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
