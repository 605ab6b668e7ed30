"""How much memory this process has ever held, and the end of what its GPU was given to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


class Memory:
    """The memory that steps of the program take: on a GPU what torch allocated there, else the process's own."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    @property
    def on_gpu(self) -> bool:
        """Whether the program has used a GPU."""
        return bool(self._torch.cuda.is_initialized())

    def finish(self) -> None:
        """Wait until the GPU has done what was asked of it: work that is still queued belongs to the block before."""
        if self.on_gpu:
            self._torch.cuda.synchronize()

    def peak_bytes(self) -> int:
        """The most it ever held; 0 where the system does not tell."""
        if self.on_gpu:
            devices = range(self._torch.cuda.device_count())
            return sum(int(self._torch.cuda.max_memory_allocated(device)) for device in devices)
        return held_at_most()


def held_at_most() -> int:
    """The most resident memory that this process ever had, bytes; 0 where the system does not tell."""
    try:  # not `ru_maxrss`, which a process can have from the one that started it
        line = next(line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1]) * 1024
