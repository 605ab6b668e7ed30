"""The optimizer does its step in many passes over the parameters, where a fused one needs a single pass.

What it finds
    A step of Adam, AdamW, SGD or Adagrad that calls ops of two kinds or more, on lists of tensors or on a CPU one by
    one, and no fused op. On a CPU it has to take at least 2 % of the step.

Why it costs
    Every op of the update reads parameters, gradients or moments from memory and writes them back. A fused step reads
    each of them once and writes it once, and on a GPU it launches one kernel for many tensors.

What to do
    `torch.optim.AdamW(..., fused=True)`. It works for floating-point parameters on a GPU, and on a CPU in newer
    versions of PyTorch.

When not to
    A fused step rounds in another order than the single ops do. Plain SGD without momentum has one op to begin with and
    nothing to fuse. Where every parameter is in a group of its own, fusing does nothing: mend the groups first.

Source
    PyTorch's documentation of torch.optim (fused); RULES.md, OPT002.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.optimizers import optimizer_calls, optimizer_ops
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace

HAS_FUSED = {"Adam", "AdamW", "SGD", "Adagrad"}
WIDEST = 2.0
"""A fused step moves at most twice what the widest of the single ops moves: Adam 7 tensors against the 4 of addcdiv,
SGD with momentum 5 against 3."""
KINDS = 2
"""One kind of op is one pass already."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each optimizer of the window."""
    table, calls = optimizer_ops(trace), optimizer_calls(trace)
    table = table[(table["what"] == "step") & table["optimizer"].isin(HAS_FUSED)]
    on_gpu = len(linked_work(trace)) > 0
    for optimizer, mine in table.groupby("optimizer"):
        if mine["fused"].any() or (on_gpu and not mine["at_once"].any()):
            continue
        steps = calls.loc[(calls["what"] == "step") & (calls["optimizer"] == optimizer), "row"].to_numpy(np.int64)
        part = share(trace, steps)
        if mine["name"].nunique() < KINDS or (part < limits["share"] and not on_gpu):
            continue
        yield Sighting(
            message=f"{optimizer} takes its step in {mine['name'].nunique()} kinds of ops, each a pass over the "
            f"parameters: {part:.1%} of {whole(trace)}.",
            where=where_of(trace, int(mine["row"].iloc[0])),
            evidence={
                "optimizer": str(optimizer),
                "ops_per_step": round(len(mine) / len(steps), 3),
                "kinds": sorted(set(mine["name"])),
                "on_lists": bool(mine["at_once"].any()),
                "share": part,
            },
            intervals_ns=intervals_of(trace, steps),
            edit=Edit(keep=_on_gpu(trace, mine) if on_gpu else _on_cpu(mine)),
            basis="as one pass of at most twice the time of its widest op",
        )


def _on_gpu(trace: Trace, mine: pd.DataFrame) -> dict[int, float]:
    """The kernels of the widest kind of op stay, and take over; those of the other kinds go, with their ops."""
    work = linked_work(trace)
    around = enclosing(trace, work["op"].to_numpy(np.int64), mine["row"].to_numpy(np.int64))
    inside = around >= 0
    pieces = work.loc[inside, ["row", "dur_ns"]].assign(around=around[inside])
    pieces["kind"] = pieces["around"].map(mine.set_index("row")["name"])
    by_kind = pieces.groupby("kind")["dur_ns"].sum()
    if by_kind.empty:
        return {}
    widest, most = str(by_kind.idxmax()), int(by_kind.max())
    rows = pieces.loc[pieces["kind"] == widest, "row"].tolist()
    gone = (*mine.loc[mine["name"] != widest, "row"].tolist(), *pieces["row"].tolist())
    return dict.fromkeys(gone, 0.0) | dict.fromkeys(rows, min(WIDEST * most, int(by_kind.sum())) / max(most, 1))


def _on_cpu(mine: pd.DataFrame) -> dict[int, float]:
    """All ops shrink alike, to what one pass takes in all.

    Each kind counts as often as it is called at its median: a single op that the machine interrupted would be the
    widest by far, and leave nothing to win.
    """
    by_kind = mine.groupby("name")["dur_ns"]
    usual = by_kind.size() * by_kind.median()
    return dict.fromkeys(mine["row"].tolist(), min(WIDEST * usual.max() / max(usual.sum(), 1), 1.0))


RULE = Rule(
    code="OPT002",
    name="foreach-not-fused",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={"share": Threshold(0.02, "share of the step", "half of it won is 1 %, the least that matters")},
)
