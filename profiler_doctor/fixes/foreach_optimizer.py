"""Update all weights with a few ops over lists of them.

What it does: every optimizer of torch's that has an implementation over lists is made with `foreach=True`, unless the
script chose an implementation itself.

When it applies: many small weights, and an optimizer that has no fused implementation. It needs memory for one more
copy of the weights.

How results may change: not at all; the arithmetic is the same.

Source: https://docs.pytorch.org/docs/stable/optim.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._optimizers import made_with, trains

FIX = Fix(
    name="foreach-optimizer",
    doc=__doc__,
    cures=("OPT001",),
    snippet="# the optimizer you have, with the arguments it has and one more\n"
    "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)\n",
    changes_numbers="",
    rank=1,
    applies=trains,
    set_up=lambda machine: made_with("foreach"),  # noqa: ARG005  # the same on every machine
    variant_of="fused-optimizer",
    excludes="optimizer",
)
