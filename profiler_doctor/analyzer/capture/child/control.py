"""Our process's only way to reach into a running script: one letter in a pipe, and SIGURG to have it read.

SIGURG, because it does nothing by default and scripts hardly ever use it; where one does, we leave it to the script.
Python runs the handler on the main thread between two instructions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

RECORD = "w"
"""Record a window from now on, where no step has been found."""
STOP = "s"
"""End that window and write it."""
END = "e"
"""Leave the script now: its time is up and no step boundary came."""


def listen(descriptor: int, orders: Mapping[str, Callable[[], None]]) -> None:
    """Have each letter that arrives do its order."""
    free = signal.getsignal(signal.SIGURG) in (signal.SIG_DFL, signal.SIG_IGN, None)
    if descriptor < 0 or threading.current_thread() is not threading.main_thread() or not free:
        return
    pid = os.getpid()

    def obey(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != pid:
            return
        letters = b""
        with contextlib.suppress(OSError):
            letters = os.read(descriptor, 64)
        for letter in letters.decode():
            orders.get(letter, lambda: None)()

    signal.signal(signal.SIGURG, obey)
