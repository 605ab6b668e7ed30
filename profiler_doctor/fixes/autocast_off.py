"""Leave autocast off where the CPU has no units for it.

What it does: `torch.autocast` on the CPU does nothing, whatever the script asks for.

When it applies: autocast to bfloat16 or float16 on a CPU that has to convert number by number. On a CPU with bfloat16
units it may win or lose; the trial tells.

How results may change: they get more exact: up to 2e-2 away from the lowered ones, and in float32.

Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._lowered import TOLERANCE
from profiler_doctor.fixes._patched import patched


def _applies(machine: Machine) -> str | None:
    return None if machine.device == "cpu" else "the work does not run on a CPU"


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    with patched(torch.autocast, "__init__", _never_on):
        yield


def _never_on(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        original(self, device_type, dtype, enabled and device_type != "cpu", cache_enabled)

    return init


FIX = Fix(
    name="autocast-off",
    doc=__doc__,
    cures=("PRC006",),
    snippet='with torch.autocast("cpu", enabled=False):\n    output = model(inputs)\n',
    changes_numbers="they get more exact: up to 2e-2 away from the lowered ones",
    rank=0,
    tolerance=TOLERANCE,
    applies=_applies,
    set_up=_set_up,
    excludes="precision",
)
