"""Drop gradients instead of writing zeros over them.

What it does: `zero_grad()` sets gradients to None whatever the script asks for, so that the backward pass writes the
first gradient instead of adding it to zeros.

When it applies: a script that says `zero_grad(set_to_none=False)`. It is torch's default otherwise.

How results may change: a weight that gets no gradient in a step is skipped by the optimizer, where before its momentum
went on with a zero. Code that reads `.grad` after `zero_grad()` finds None.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._optimizers import trains
from profiler_doctor.fixes._patched import patched


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    from torch.nn import Module
    from torch.optim import Optimizer

    with patched(Optimizer, "zero_grad", _to_none), patched(Module, "zero_grad", _to_none):
        yield


def _to_none(original: Callable[..., None]) -> Callable[..., None]:
    def zero_grad(self: Any, set_to_none: bool = True) -> None:  # noqa: ARG001  # that is the cure
        original(self, set_to_none=True)

    return zero_grad


FIX = Fix(
    name="set-to-none",
    doc=__doc__,
    cures=("OPT003",),
    snippet="optimizer.zero_grad(set_to_none=True)\n",
    changes_numbers="a weight without a gradient is skipped instead of moved on by its momentum",
    rank=0,
    applies=trains,
    set_up=_set_up,
)
