"""What we owe to forked children of a process in which we have used torch's profiler."""

from __future__ import annotations

import contextlib
import ctypes


def exit_past_destructors() -> None:
    """Let this forked child leave by `_exit`, with its own status, once Python has been wound up.

    Kineto keeps a thread from its first use on, and waits for it when the process ends. A forked child does not have
    that thread and would wait for ever, or abort. Workers of `multiprocessing` leave by `_exit` anyway; this is for
    children that come to a normal end. Needs glibc; elsewhere nothing happens.
    """
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.on_exit(ctypes.cast(library._exit, ctypes.c_void_p), None)
        # registered later, so done earlier: what C code has printed is written before
        library["__cxa_atexit"](ctypes.cast(library.fflush, ctypes.c_void_p), None, None)
