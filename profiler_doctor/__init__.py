"""Find out why a PyTorch model is slow, try the cures, and say which of them are true."""

from __future__ import annotations

import sys

__version__ = "0.1.0"
__all__ = ["__version__", "step"]


def step() -> None:
    """Mark the start of a step in a script that `profiler-doctor run` is watching.

    Optional. Outside a watched run it does nothing and costs one look-up, so the call can stay in the script.
    """
    watcher = sys.modules.get("profiler_doctor.analyzer.capture.child.marks")
    if watcher is not None:
        watcher.user_mark()
