"""Switch off what helps debugging and slows everything else down.

What it does: autograd's anomaly mode and trace functions of Python's stay off whatever the script asks for, and the
variables that make each launch on a GPU wait for its kernel are set to 0.

When it applies: a debugging aid was left on. Not while something is being debugged.

How results may change: not at all; a NaN in a gradient no longer raises an error.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._patched import patched

BLOCKING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "PYTORCH_NO_CUDA_MEMORY_CACHING")


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    was_on, checked = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    trace = sys.gettrace()
    try:
        with patched(torch, "set_anomaly_enabled", _never_on), patched(sys, "settrace", _never_tracing):
            torch.set_anomaly_enabled(False)
            sys.settrace(None)
            yield
    finally:
        torch.set_anomaly_enabled(was_on, checked)
        sys.settrace(trace)


def _never_on(original: Callable[..., None]) -> Callable[..., None]:
    def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:  # noqa: ARG001  # that is the cure
        original(False, check_nan)

    return set_anomaly_enabled


def _never_tracing(original: Callable[..., None]) -> Callable[..., None]:
    def settrace(function: object, /) -> None:  # noqa: ARG001  # that is the cure
        original(None)

    return settrace


FIX = Fix(
    name="debugging-off",
    doc=__doc__,
    cures=("ENV002", "SYN005"),
    snippet="torch.autograd.set_detect_anomaly(False)  # and unset CUDA_LAUNCH_BLOCKING\n",
    changes_numbers="",
    rank=0,
    environment=lambda machine: dict.fromkeys(BLOCKING, "0") if machine.device == "cuda" else {},
    set_up=_set_up,
)
