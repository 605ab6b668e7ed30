"""The accelerators that were built with the package, where there are any and they are wanted."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

PURE = "PROFILER_DOCTOR_PURE"
"""Environment variable: anything but empty or 0 makes Python and numpy do all the work."""


def accelerator(name: str) -> ModuleType | None:
    """The compiled module of this full name; None where it was not built, or where PROFILER_DOCTOR_PURE is set."""
    if os.environ.get(PURE, "0") not in ("", "0"):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
