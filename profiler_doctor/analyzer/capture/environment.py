"""The circumstances of a run: versions, machine, load, revision. All values are JSON values."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, cast

import psutil

import profiler_doctor
from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Machine

PACKAGES = ("torch", "numpy", "triton", "transformers", "torchvision", "onnxruntime", "onnx")
"""Whose version changes how fast a model runs."""
GIT_S = 5.0


def environment(command: tuple[str, ...]) -> dict[str, object]:
    """What is known before the program runs. `command` is the program as typed.

    Versions, platform, `cpu` (model, flags, count, affinity, quota, usable), `memory_bytes`, `load` (1, 5, 15 minutes),
    `git` (commit, dirty; None outside a repository), `command`.
    """
    return {
        "profiler_doctor": profiler_doctor.__version__,
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "memory_bytes": psutil.virtual_memory().total,
        "load": [round(load, 2) for load in os.getloadavg()],
        "git": _git(Path.cwd()),
        "command": list(command),
        "executable": sys.executable,
    }


def with_facts(known: Mapping[str, object], facts: Facts) -> dict[str, object]:
    """The same, and what only the program's own process could tell."""
    more = {
        "device": facts.device,
        "torch": facts.torch,
        "threads": facts.threads,
        "variables": dict(facts.environment),
        "load_after": [round(load, 2) for load in os.getloadavg()],
    }
    return {**known, **more}


def machine(facts: Facts) -> Machine:
    """Where a fix would run, as fixes ask."""
    return Machine(
        device=cast(Literal["cpu", "cuda", "xpu", "none"], facts.device),
        torch=facts.torch or None,
        cpu_flags=frozenset(facts.cpu_flags),
        cpus=facts.cpus,
        threads=facts.threads or None,
        has_root=bool(facts.roots),
        training=facts.backward_calls > 0 or facts.optimizer_steps > 0,
        input_ranks=frozenset(rank for root in facts.roots for rank in root.input_ranks),
        signatures=facts.roots[0].signatures if len(facts.roots) == 1 else (),
        compiled=any(root.compiled for root in facts.roots),
        made_anew=facts.jax is not None and facts.jax.objects > 2,
        onnx_providers=frozenset(facts.onnx.available) if facts.onnx else frozenset(),
    )


def _cpu() -> dict[str, object]:
    return {
        "model": processors.cpu_model(),
        "flags": list(processors.cpu_flags()),
        "count": os.cpu_count(),
        "affinity": list(processors.affinity()),
        "quota": processors.quota(),
        "usable": processors.usable_cpus(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(where: Path) -> dict[str, object] | None:
    commit = _asked("rev-parse", "HEAD", where=where)
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_asked("status", "--porcelain", "--untracked-files=no", where=where))}


def _asked(*question: str, where: Path) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *question], cwd=where, capture_output=True, text=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
