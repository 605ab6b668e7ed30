"""The memory of a trial's two sides: kept in the same way by both, and no more of it than the machine can spare."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

OWN_CHOICES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Beginnings of variables by which somebody has chosen how memory is kept; then the choice is theirs."""
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""glibc gives freed memory back to the system or keeps it, depending on what lies beside it by chance. Measured: of
twelve processes of one small convolutional net some took 0.7 and some 2.0 times the CPU time of others, all of it in
fresh pages. So both sides keep what they free, up to the 32 MB that glibc can keep of one piece."""
SHARE = 0.9
"""Of what the machine could spare when a side was started."""
SPARE_BYTES = 256 << 20
"""... but a machine with less than this left is in trouble, whoever took it."""
LOOK_EVERY_S = 0.2


def keeping(*environments: Mapping[str, str]) -> Mapping[str, str]:
    """Variables that make both sides keep their memory alike; none where the user or a fix has chosen another way."""
    names = [name for environment in (os.environ, *environments) for name in environment]
    return {} if any(name.startswith(OWN_CHOICES) for name in names) else KEEPING


class MemoryWatch:
    """Looks now and then at how much memory a process and its children hold."""

    def __init__(self, pid: int) -> None:
        with contextlib.suppress(OSError):  # where memory ends at once, it is this process that the kernel shall end
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")
        self._process = psutil.Process(pid)
        self._limit = SHARE * _spare()
        self._next_s = 0.0

    def excess(self) -> str | None:
        """What is wrong, as the end of a sentence; None: nothing, or it is too early to look again."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return None
        self._next_s = now_s + LOOK_EVERY_S
        held = sum(_held(self._family()))
        if held > self._limit or (_spare() < SPARE_BYTES and held > SPARE_BYTES):
            return f"it took {held / 1e9:.1f} GB of memory, more than the machine can spare"
        return None

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return []


def _held(processes: Iterable[psutil.Process]) -> Iterable[int]:
    for process in processes:
        try:
            yield process.memory_info().rss
        except psutil.Error:  # it has ended
            continue


def _spare() -> int:
    """Bytes that can still be had: the machine's, or what the control group leaves of them."""
    spare = int(psutil.virtual_memory().available)
    limit, used = _group("memory.max"), _group("memory.current")
    return spare if limit is None or used is None else min(spare, max(0, limit - used))


def _group(name: str) -> int | None:
    try:
        return int(Path(f"/sys/fs/cgroup/{name}").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no control group, or no limit in it
        return None
