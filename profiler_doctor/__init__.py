"""Find out why a PyTorch model is slow, try the cures, and say which of them are true."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiler_doctor.notebook import Diagnosed as Diagnosed
    from profiler_doctor.notebook import analyze as analyze
    from profiler_doctor.notebook import diagnose as diagnose
    from profiler_doctor.notebook import profile as profile

__version__ = "0.1.0"
__all__ = ["Diagnosed", "__version__", "analyze", "diagnose", "profile", "step"]
_FOR_NOTEBOOKS = ("Diagnosed", "analyze", "diagnose", "profile")


def step() -> None:
    """Mark the start of a step in a script that `profiler-doctor run` is watching.

    Optional. Outside a watched run it does nothing and costs one look-up, so the call can stay in the script.
    """
    watcher = sys.modules.get("profiler_doctor.analyzer.capture.child.marks")
    if watcher is not None:
        watcher.user_mark()


def __dir__() -> list[str]:
    """What is public, for completion in a notebook: the names that are loaded late would not be seen."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """What notebooks use is loaded when it is asked for: a watched script imports this package, and nothing else."""
    if name not in _FOR_NOTEBOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("profiler_doctor.notebook"), name)
