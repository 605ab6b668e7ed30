"""The run that looks for steps where there are no marks: which of the user's own functions is the loop's body?

Every call of a function of theirs is seen, which slows Python down: it is a run of its own, and its times are not used.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from profiler_doctor.analyzer.capture.child.own_code import is_own_file
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.users_function import NOT_STEPS, key_of
from profiler_doctor.analyzer.kinds import Root

FEWEST_CALLS = 5
"""Fewer are no loop worth measuring."""
SHARE_OF_LOOP = 0.5
"""Of the time from its first call to its last return that a loop's body must take."""
NEARLY_ALL = 0.8
"""Of the longest candidate's time: an outer function that takes as much is the step, and not what it calls."""


@dataclass
class Function:
    """One function and its calls so far. Times in ns."""

    code: CodeType
    depth: int
    """How many functions of the user's own were open at its first call."""
    calls: int = 0
    total_ns: int = 0
    first_ns: int = 0
    began_ns: int = 0
    last_ns: int = 0
    open: int = 0
    """Calls of it under way: more than one where it calls itself."""


class Functions:
    """A profile function of Python's, and the conductor of its run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[CodeType, Function | None] = {}
        self._open: list[tuple[FrameType, Function]] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG002  # Python's own signature
        """One call or return of anything; what is not the user's own is let by."""
        if event == "call":
            self._called(frame)
        elif event == "return" and self._open and self._open[-1][0] is frame:
            self._returned()

    def on_boundary(self, index: int, now_ns: int) -> None:
        """Steps have been found elsewhere: nothing to do with us."""

    def on_root_call(self, root: Root) -> None:
        """Roots keep their calls."""

    def finish(self) -> None:
        """Say which function it is."""
        sys.setprofile(None)
        found = the_step([known for known in self._known.values() if known is not None])
        if found is not None:
            name, calls = found.code.co_name, 0 if self._session.ended_by_us else found.calls
            self._session.say("function", key=key_of(found.code), name=name, calls=calls)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if code not in self._known:
            steps = is_own_file(code.co_filename) and not code.co_flags & NOT_STEPS and code.co_name != "<module>"
            self._known[code] = Function(code, len(self._open)) if steps else None
        known = self._known[code]
        if known is None:
            return
        now_ns = time.perf_counter_ns()
        known.first_ns = known.first_ns or now_ns
        known.open += 1
        if known.open == 1:
            known.calls += 1
            known.began_ns = now_ns
        self._open.append((frame, known))
        if self._session.time_is_up():
            self._session.end("budget")

    def _returned(self) -> None:
        _, known = self._open.pop()
        known.open -= 1
        if not known.open:
            known.last_ns = time.perf_counter_ns()
            known.total_ns += known.last_ns - known.began_ns


def the_step(functions: list[Function]) -> Function | None:
    """The outermost function that is called again and again, and that the loop around it spends its time in."""
    loops = [known for known in functions if known.calls >= FEWEST_CALLS and _fills_its_loop(known)]
    longest = max((known.total_ns for known in loops), default=0)
    nearly = [known for known in loops if known.total_ns >= NEARLY_ALL * longest]
    return min(nearly, key=lambda known: (known.depth, -known.total_ns), default=None)


def _fills_its_loop(known: Function) -> bool:
    return known.total_ns >= SHARE_OF_LOOP * (known.last_ns - known.first_ns)


def begin(session: Session) -> Functions:
    """The conductor of mode `functions`."""
    functions = Functions(session)
    session.finishers.append(functions.finish)
    if threading.current_thread() is threading.main_thread():
        sys.setprofile(functions)
    return functions
