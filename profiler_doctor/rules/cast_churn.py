"""Tensors are cast between floating-point types again and again.

What it finds
    Casts between float32, float16 and bfloat16 in the forward pass that take at least 2 % of the time: those that the
    program asks for (`.float()`, `.to(dtype)`), and, where nothing is trained, those that autocast makes. Where our own
    capture recorded which op was given which tensor: how many of them cast a tensor that has not changed since it was
    cast before, such as a weight.

Why it costs
    A cast computes nothing, but reads the whole tensor and writes it in another width. Next to a fused op, which casts
    in registers, it is a pass over the memory more, and the ops between two casts move twice the bytes.

What to do
    Keep the result of a cast that is made of the same tensor again. For inference cast the weights once
    (`model.to(torch.bfloat16)`) in place of autocast. Casts around a norm go with the norm itself: a fused one computes
    in float32 and takes and gives the narrow type (see decomposed-norm). For the rest `torch.compile` puts the cast
    into the op that reads the result.

When not to
    Norms, softmax and losses in float32 are meant that way: keep their arithmetic, drop only the passes. In training
    autocast has to cast the weights after each update, and no finding speaks of those casts.

Source
    RULES.md, PRC003; PyTorch's documentation of torch.amp.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.casts import casts
from profiler_doctor.analyzer.measures.chains import called
from profiler_doctor.analyzer.measures.decomposed import norms
from profiler_doctor.analyzer.measures.ops import is_op, outermost
from profiler_doctor.analyzer.measures.share import intervals_of, share, trains, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.values import made_again, same_in_every_step
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such casts of the window."""
    table, span = casts(trace), window(trace)
    table = table[~(table["by_autocast"] & trains(trace))]
    part = share(trace, table["row"])
    if span is None or not len(table) or part < limits["share"]:
        return
    in_norms = _in_norms(trace, table)
    rows = table["row"].tolist()
    idle = _of_the_same(trace, table)
    largest = int(table["row"].iloc[int(table["size"].argmax())])
    yield Sighting(
        message=f"Casts between {' and '.join(_types(table))} take {part:.1%} of {whole(trace)}, "
        f"{len(table) / span.per:.3g} times per {span.unit}{_share_of_norms(in_norms, len(table))}"
        f"{_share_of_the_same(idle, len(table))}.",
        where=where_of(trace, largest),
        evidence={
            "casts": len(table),
            "casts_per_step": round(len(table) / span.per, 3),
            "casts_in_norms": in_norms,
            "casts_by_autocast": int(table["by_autocast"].sum()),
            "casts_of_the_same": idle,
            "elements": int(table["size"].sum()),
            "share": part,
        },
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows, 0.0)),
        basis="the casts gone; those in norms are part of what decomposed-norm claims and count once",
    )


def _types(table: pd.DataFrame) -> list[str]:
    kinds = {*table["source"], *table["target"]}
    return sorted(str(kind).removeprefix("c10::") for kind in kinds)


def _in_norms(trace: Trace, table: pd.DataFrame) -> int:
    theirs = {row for chain in norms(trace) for row in chain.casts}
    return sum(row in theirs for row in called(trace, table["row"].to_numpy("int64")).tolist())


def _share_of_norms(in_norms: int, casts_in_all: int) -> str:
    return f"; {in_norms} of {casts_in_all} belong to norms written out in single ops" if in_norms else ""


def _of_the_same(trace: Trace, table: pd.DataFrame) -> int:
    """Casts of a tensor that nothing has changed since it was cast before, in this step or the one before."""
    told = made_again(trace)
    known = {*told["row"][told["copy"]].tolist(), *same_in_every_step(trace)}
    rows = table["row"].to_numpy("int64")
    return sum(row in known for row in outermost(trace, rows, is_op(trace)).tolist())


def _share_of_the_same(casts: int, casts_in_all: int) -> str:
    return f"; {casts} of {casts_in_all} cast a tensor that has not changed since it was cast before" if casts else ""


RULE = Rule(
    code="PRC003",
    name="cast-churn",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={"share": Threshold(0.02, "share of the step", "a few casts at the edges of a model are no churn")},
)
