"""The CPUs that a process may really use: affinity and container quota, not the number on the box.

Standard library alone, because the user's process asks too.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CGROUPS = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")


def affinity() -> tuple[int, ...]:
    """Numbers of the CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def quota(membership: Path = SELF, mount: Path = CGROUPS) -> float | None:
    """CPUs' worth of time that the control groups of this process grant it, None without a limit.

    The tightest limit of the group and all groups above it counts. `membership` is the process's list of groups,
    `mount` where they are mounted; both versions of control groups are read.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    found = [limit for line in lines for limit in _limits(line, mount)]
    return min(found, default=None)


def usable_cpus() -> int:
    """How many CPUs' worth of work this process can do at once: affinity and quota together, at least 1."""
    allowed, granted = len(affinity()), quota()
    return max(1, allowed if granted is None else min(allowed, round(granted)))


def cpu_flags(cpuinfo: Path = CPUINFO) -> tuple[str, ...]:
    """Instruction sets, in the kernel's names (`avx2`, `amx_bf16`); empty where they cannot be read."""
    return tuple(sorted(_field(cpuinfo, "flags", "Features").split()))


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """The processor's name."""
    return _field(cpuinfo, "model name", "Model") or platform.processor() or platform.machine()


def _limits(line: str, mount: Path) -> Iterator[float]:
    _, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if controllers == "":
        for folder in _upwards(mount, path):
            yield from _pair(folder / "cpu.max")
    elif "cpu" in controllers.split(","):
        top = next((mount / name for name in (controllers, "cpu") if (mount / name).is_dir()), None)
        for folder in _upwards(top, path) if top is not None else ():
            yield from _quota_and_period(folder)


def _upwards(top: Path, path: str) -> Iterator[Path]:
    folder = top / path.lstrip("/")
    while True:
        yield folder
        if folder == top or top not in folder.parents:
            return
        folder = folder.parent


def _pair(file: Path) -> Iterator[float]:
    try:
        allowed, period = file.read_text().split()
    except (OSError, ValueError):
        return
    if allowed != "max":
        yield int(allowed) / int(period)


def _quota_and_period(folder: Path) -> Iterator[float]:
    try:
        allowed = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return
    if allowed > 0:
        yield allowed / period


def _field(cpuinfo: Path, *names: str) -> str:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip() in names), "")
