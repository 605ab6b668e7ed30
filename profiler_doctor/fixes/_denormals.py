"""Numbers too small for full precision taken as zero, on the thread that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from profiler_doctor.analyzer.kinds import Unsuitable


@contextmanager
def flushing() -> Iterator[None]:
    """While it lasts. Raises Unsuitable where the processor cannot."""
    import torch

    if not torch.set_flush_denormal(True):
        raise Unsuitable("this CPU cannot flush them")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
