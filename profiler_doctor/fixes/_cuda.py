"""What the fixes for NVIDIA GPUs have in common."""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Machine


def on_cuda(machine: Machine) -> str | None:
    """Why a fix for CUDA does not apply: the words that `Fix.applies` gives."""
    return None if machine.device == "cuda" else "the work does not run on a CUDA GPU"
