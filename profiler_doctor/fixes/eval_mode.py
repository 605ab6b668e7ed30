"""Call the model in eval mode.

What it does: each call runs with every layer in eval mode, and the layers' own modes are put back after it. Dropout
costs nothing then, and batch normalisation uses the statistics it has learnt.

When it applies: a script that never trains and has a model, or a part of one, still in training mode.

How results may change: dropout no longer drops, and batch normalisation no longer looks at the batch. That is nearly
always what inference is meant to be, but these are other answers, so a trial verifies it only where no layer cares.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable


def _applies(machine: Machine) -> str | None:
    if machine.training:
        return "the script trains"
    return None if machine.has_root else "no module was called"


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    parts = [part for part in root.module.modules() if part.training]
    if not parts:
        raise Unsuitable("the model is in eval mode already")

    def in_eval_mode(*args: Any, **kwargs: Any) -> Any:
        # for the call alone: the copies that it is held against have to run as the script left them
        for part in parts:
            part.training = False
        try:
            return root.call(*args, **kwargs)
        finally:
            for part in parts:
                part.training = True

    yield in_eval_mode


FIX = Fix(
    name="eval-mode",
    doc=__doc__,
    cures=(),
    snippet="model.eval()\n",
    changes_numbers="dropout no longer drops, and batch normalisation uses what it has learnt",
    rank=0,
    applies=_applies,
    treat=_treat,
)
