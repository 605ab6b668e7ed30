"""The optimizer updates one tensor after the other, each with kernels of its own.

What it finds
    A step of one of PyTorch's own optimizers on a GPU that launches more than 20 kernels and works on no list of
    tensors (`_foreach_…`, `_fused_…`).

Why it costs
    Adam has about ten ops for each parameter. A model with 300 parameters then launches 3000 small kernels a step, and
    each launch takes longer than the kernel. Working on lists, ten to twenty launches do the same.

What to do
    `torch.optim.AdamW(..., foreach=True)`, or `fused=True` where the optimizer has it. It is the default for parameters
    on a GPU; something has turned it off: `foreach=False`, `differentiable=True`, or parameters on several devices.

When not to
    Working on lists needs memory for one more copy of the parameters at its peak. Optimizers from elsewhere (Shampoo,
    8-bit ones) have their own reasons, and no finding speaks of them; sparse gradients cannot be put in lists.

Source
    PyTorch's documentation of torch.optim, "Algorithms" (for-loop, foreach, fused); RULES.md, OPT001.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.optimizers import optimizer_ops
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

TAKES_LISTS = {
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
}  # fmt: skip
"""PyTorch's optimizers that can work on lists of tensors."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each optimizer of the window."""
    span, table = window(trace), optimizer_ops(trace)
    table = table[(table["what"] == "step") & table["optimizer"].isin(TAKES_LISTS)]
    for optimizer, mine in table.groupby("optimizer"):
        kernels = _kernels(trace, mine)
        steps = mine["call"].nunique()
        if span is None or mine["at_once"].any() or mine["fused"].any() or len(kernels) <= limits["kernels"] * steps:
            continue
        yield Sighting(
            message=f"{optimizer} updates its parameters one by one, with {len(kernels) / steps:.0f} kernels per step.",
            where=where_of(trace, int(kernels["around"].iloc[0])),
            evidence={
                "optimizer": str(optimizer),
                "kernels": len(kernels),
                "kernels_per_step": round(len(kernels) / steps, 3),
                "time_ns": int(kernels["dur_ns"].sum()),
                "share_of_work": float(kernels["dur_ns"].sum() / max(linked_work(trace)["dur_ns"].sum(), 1)),
            },
            intervals_ns=places(kernels),
            edit=Edit(joined=tuple(kernels.loc[kernels[["call", "called"]].duplicated(), "row"].tolist())),
            basis="the same kernels with one launch for each kind of op",
        )


def _kernels(trace: Trace, mine: pd.DataFrame) -> pd.DataFrame:
    """The work that these ops launched, with the name of the op (called) and the optimizer's call."""
    work = linked_work(trace)
    around = enclosing(trace, work["op"].to_numpy(np.int64), mine["row"].to_numpy(np.int64))
    known = mine.set_index("row")
    work = work.assign(around=around)[around >= 0]
    return work.assign(called=work["around"].map(known["name"]), call=work["around"].map(known["call"]))


RULE = Rule(
    code="OPT001",
    name="single-tensor-optimizer",
    doc=__doc__,
    find=find,
    needs=(Has.KERNELS, Has.LAUNCHES, Has.OPS),
    thresholds={"kernels": Threshold(20, "kernels per step", "about what a step on lists launches")},
)
