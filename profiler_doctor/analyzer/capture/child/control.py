"""Our process's only way to reach into a running script: one letter in a pipe, and SIGURG to have it read.

SIGURG, because it does nothing by default and scripts hardly ever use it; where one does, we leave it to the script.
Python runs the handler on the main thread between two instructions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

RECORD = "w"
"""Record a window from now on, where no step has been found."""
STOP = "s"
"""End that window and write it."""
END = "e"
"""Leave the script: its time is up and no step boundary came."""
END_NOW = "E"
"""Leave it from within the handler, where it has not reached another line since `END`: it sleeps, say."""

IN_BETWEEN = ("<frozen importlib._bootstrap>", "torch/_dynamo/convert_frame.py")
"""Code on whose work nothing else may intrude: half a module is imported, half a graph compiled."""

Leave = Callable[[], None]


def listen(descriptor: int, orders: Mapping[str, Callable[[], None]], leave: Leave) -> None:
    """Have each letter that arrives do its order; `leave` raises what leaves the script.

    An order that comes at a bad moment is dropped; our process repeats it until it hears that it was carried out.
    """
    free = signal.getsignal(signal.SIGURG) in (signal.SIG_DFL, signal.SIG_IGN, None)
    if descriptor >= 0 and threading.current_thread() is threading.main_thread() and free:
        signal.signal(signal.SIGURG, _Obedience(descriptor, orders, leave))


class _Obedience:
    """The signal's handler. It carries out one order at a time."""

    def __init__(self, descriptor: int, orders: Mapping[str, Callable[[], None]], leave: Leave) -> None:
        self._descriptor = descriptor
        self._orders = orders
        self._leave = leave
        self._pid = os.getpid()
        self._busy = False

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            return
        letters = b""
        with contextlib.suppress(OSError):
            letters = os.read(self._descriptor, 64)
        if self._busy:  # the signal came again while the order it brought before is carried out
            return
        self._busy = True
        try:
            for letter in letters.decode():
                self._obey(letter, frame)
        finally:
            self._busy = False

    def _obey(self, letter: str, frame: FrameType | None) -> None:
        if letter == END:
            _leave_at_next_line(frame, self._leave)
        elif letter == END_NOW:
            self._leave()
        elif letter in self._orders and not _in_between(frame):
            self._orders[letter]()


def _in_between(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(IN_BETWEEN):
            return True
        frame = frame.f_back
    return False


def _leave_at_next_line(frame: FrameType | None, leave: Leave) -> None:
    """Leave where the script's next line begins, and not here.

    The handler may run inside an operator of torch that prints what is raised in it and goes on, or, being shown a
    SystemExit, ends the process without the script's `finally` blocks. A debugger keeps its tracing.
    """
    if sys.gettrace() is not None:
        leave()

    def tracer(_frame: FrameType, _event: str, _argument: Any) -> Any:
        sys.settrace(None)
        leave()

    while frame is not None:
        frame.f_trace = tracer
        frame = frame.f_back
    sys.settrace(lambda _frame, _event, _argument: None)
