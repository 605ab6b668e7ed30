"""Our phases and the steps as NVTX ranges, for whoever watches the run in Nsight Systems.

In the `nvtx` package's domain "profiler-doctor" where that package can be imported, else through `torch.cuda.nvtx`.
Where no tool listens, nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOMAIN = "profiler-doctor"


class OurRanges:
    """One range for the phase and one for the step, each until the next one of its kind."""

    def __init__(self, torch: Any) -> None:
        self._start, self._end = _channel(torch)
        self._phase: Any = None
        self._step: Any = None

    def phase(self, name: str) -> None:
        """A phase begins."""
        self._phase = self._next(self._phase, name)

    def step(self, index: int) -> None:
        """A step begins."""
        if self._start is not None:
            self._step = self._next(self._step, f"step {index}")

    def _next(self, last: Any, name: str) -> Any:
        if self._start is None:
            return None
        if last is not None:
            self._end(last)
        return self._start(name)


def _channel(torch: Any) -> tuple[Callable[[str], Any] | None, Callable[[Any], Any]]:
    """What starts and ends a range; no start where nobody would see it."""
    try:
        import nvtx
    except ImportError:
        return _torch_channel(torch)
    domain = nvtx.get_domain(DOMAIN)
    if type(domain).__name__ == "DummyDomain":
        return None, lambda _started: None
    return lambda name: domain.start_range(message=name), domain.end_range


def _torch_channel(torch: Any) -> tuple[Callable[[str], Any] | None, Callable[[Any], Any]]:
    native = torch.cuda.nvtx._nvtx
    if not hasattr(native, "rangeStartA"):
        return None, lambda _started: None
    return native.rangeStartA, native.rangeEnd
