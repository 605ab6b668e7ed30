"""Update all weights in one fused kernel.

What it does: every optimizer of torch's that has a fused implementation is made with `fused=True`, unless the script
chose an implementation itself.

When it applies: Adam, AdamW, SGD and Adagrad over weights in floating point on a CPU or GPU. Many small weights gain
most; it does nothing for an optimizer with one group a weight, which runs one kernel for each.

How results may change: by rounding (7e-7 of a weight measured in float32).

Source: https://docs.pytorch.org/docs/stable/optim.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._optimizers import made_with, trains

FIX = Fix(
    name="fused-optimizer",
    doc=__doc__,
    cures=("OPT001", "OPT002"),
    snippet="# the optimizer you have, with the arguments it has and one more\n"
    "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)\n",
    changes_numbers="by rounding (7e-7 of a weight in float32)",
    rank=1,
    applies=trains,
    set_up=lambda machine: made_with("fused"),  # noqa: ARG005  # the same on every machine
    excludes="optimizer",
)
