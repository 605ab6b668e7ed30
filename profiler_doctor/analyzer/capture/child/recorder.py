"""Our use of torch's profiler: a window of whole steps, written as one chrome trace."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident
from typing import Any

from profiler_doctor.analyzer.capture.child.arbitration import Arbiter
from profiler_doctor.analyzer.capture.child.identity import as_json
from profiler_doctor.analyzer.capture.child.kineto import quiet
from profiler_doctor.analyzer.capture.child.ranges import mirror
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.sharing import shared_inputs

UNFINISHED = "unfinished step"
"""What the last range is called where the script ended within it: it is no step."""


class Recorder:
    """One recording: start, `step` at every boundary, stop, export."""

    def __init__(self, session: Session, arbiter: Arbiter, *, stacks: bool = False, memory: bool = False) -> None:
        self._session = session
        self._torch = session.torch
        self.arbiter = arbiter
        self._stacks = stacks
        self._memory = memory
        self._profile: Any = None
        self._range: Any = None
        self._name = ""
        self.running = False
        self._thread = 0
        self.step_names: list[str] = []
        """Ranges that were closed by the next step's start."""

    def start(self) -> None:
        """Begin to record on this thread, and to copy the script's NVTX ranges."""
        with quiet():
            self._profile = self._torch.profiler.profile(
                activities=_activities(self._torch),
                record_shapes=True,
                profile_memory=self._memory,
                with_stack=self._stacks,
                with_modules=self._stacks,
            )
            self._session.profiled = True
            with self.arbiter.ours():
                self._profile.start()
        mirror.open, mirror.close = self._open, self._close
        self.running = self.arbiter.recording = True
        self._thread = get_ident()

    @property
    def here(self) -> bool:
        """Whether it runs on this thread: torch lets no other one end it."""
        return self.running and self._thread == get_ident()

    def step(self, index: int) -> None:
        """Step `index` begins, and the one before it ends."""
        self._end_range()
        self._name = f"ProfilerStep#{index}"
        self._range = self._open(self._name)

    def stop(self, *, at_boundary: bool) -> None:
        """End the recording; not `at_boundary`, the step under way does not count as one."""
        if not self.running:
            return
        self.running = False
        mirror.open = None
        if at_boundary:
            self._end_range()
        self.arbiter.recording = False
        with self.arbiter.ours():
            self._profile.stop()

    def events(self) -> int:
        """How many events were recorded (after stop)."""
        results = self._profile.profiler.kineto_results
        return len(results.events()) if results is not None else 0

    def shared_inputs(self) -> tuple[tuple[int, ...], ...]:
        """Products that were given the same tensor (after stop); see `sharing`."""
        return shared_inputs(self._profile)

    def tensors(self) -> str:
        """Which tensors the ops took and made, as JSON (after stop); see `identity`."""
        return as_json(self._profile)

    def export(self, file: Path) -> None:
        """Write the chrome trace, whole or not at all."""
        part = file.with_name(f"{file.stem}.{os.getpid()}.part.json")
        try:
            self._profile.export_chrome_trace(str(part))
            if self._range is not None:
                whole = part.read_bytes()
                part.write_bytes(whole.replace(f'"{self._name}"'.encode(), f'"{UNFINISHED}"'.encode()))
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def _end_range(self) -> None:
        if self._range is not None:
            self._close(self._range)
            self.step_names.append(self._name)
        self._range = None

    def _open(self, name: str) -> Any:
        """As `record_function` does, past the hook that takes the script's own ranges for marks."""
        opened = self._torch.ops.profiler._record_function_enter_new(name, None)
        self.arbiter.opened(opened)
        return opened

    def _close(self, opened: Any) -> None:
        self.arbiter.closed(opened)
        with self._torch._C.DisableTorchFunctionSubclass():
            self._torch.ops.profiler._record_function_exit._RecordFunction(opened)


def _activities(torch: Any) -> list[Any]:
    """The CPU, and the devices that this process already works with."""
    kinds = torch.profiler.ProfilerActivity
    chosen = [kinds.CPU]
    for name, device in (("CUDA", torch.cuda), ("XPU", getattr(torch, "xpu", None))):
        if device is not None and device.is_available() and device.is_initialized():
            chosen.append(getattr(kinds, name))
    return [kind for kind in chosen if kind in torch.profiler.supported_activities()]
