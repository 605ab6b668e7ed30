"""Call the model without autograd.

What it does: it runs the outermost module under `torch.inference_mode()`, so that no op records how to be
differentiated, counts versions or keeps its inputs alive.

When it applies: the script never calls `backward` and never steps an optimizer. Many small ops gain most; a few large
ones hardly notice.

How results may change: not at all. Outputs become inference tensors, though: a script that later needs their gradient,
or changes them in place under autograd, fails with an error, and the trial then rejects the fix.

Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.inference_mode.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root


def _applies(machine: Machine) -> str | None:
    if machine.training:
        return "the script trains, and training needs autograd"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    import torch

    inference_mode, call = torch.inference_mode, root.call

    def without_autograd(*args: Any, **kwargs: Any) -> Any:
        with inference_mode():
            return call(*args, **kwargs)

    yield without_autograd


FIX = Fix(
    name="inference-mode",
    doc=__doc__,
    cures=("OPT004",),
    snippet="""\
with torch.inference_mode():
    output = model(inputs)
""",
    changes_numbers="",
    rank=0,
    applies=_applies,
    treat=_treat,
)
