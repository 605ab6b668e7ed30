"""`profiler-doctor --version`: ours, and those that change what is measured."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import profiler_doctor

MATTER = ("torch", "numpy", "pandas", "onnxruntime", "jax")
ACCELERATORS = ("analyzer/formats/_ktok", "analyzer/measures/_nest", "analyzer/replay/_play")
"""What was built with a compiler; without, Python does the same work."""


def versions() -> str:
    """One line for us, one for what we stand on; nothing heavy is imported for it."""
    found = [f"{name} {known}" for name in MATTER if (known := _installed(name)) is not None]
    here = Path(profiler_doctor.__file__).parent
    built = [Path(module).name for module in ACCELERATORS if any(here.glob(f"{module}.*"))]
    python = f"Python {platform.python_version()}"
    accelerated = f"accelerators: {', '.join(built)}" if built else "no accelerators were built"
    return f"profiler-doctor {profiler_doctor.__version__}\n{', '.join((python, *found))}; {accelerated}"


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
