"""The same constant is made anew several times in every step.

What it finds
    Ops that need no data (`arange`, `linspace`, `full`, `ones`, `eye`, triangles of them, and cosines and sines made as
    often) called with the very same arguments three times or more per step, in each step. Where our own capture
    recorded which op was given which tensor, also whatever else is worked out of such constants alone; and none that is
    written to afterwards.

Why it costs
    Each one allocates, launches and fills again what is already known. In a transformer every layer tends to make its
    own positions or its own causal mask.

What to do
    Make it once and hand it down, or keep it: `self.register_buffer("mask", ..., persistent=False)`.

When not to
    A tensor that is written to afterwards must be a fresh one each time. Small fills cost microseconds and are listed
    as what does not matter.

Source
    PyTorch's documentation of nn.Module.register_buffer; RULES.md, PYB004.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.ops import inside_named, named, ops, outermost_named
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.values import made_again, overwritten
from profiler_doctor.analyzer.measures.window import used_steps, window
from profiler_doctor.analyzer.trace import Trace

MAKES = named(r"^aten::(?:arange|linspace|logspace|full|ones|eye|tril_indices|triu_indices)$")
DERIVES = named(r"^aten::(?:cos|sin|tril|triu)$")
NOT_THE_FORWARD_PASS = named(r"^autograd::engine|Backward\d*$", r"^Optimizer\.", r"DataLoader")
GIVEN = ("Input Dims", "Input type", "Concrete Inputs")


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all constants of the window."""
    again, span = _again(trace, limits["per_step"]), window(trace)
    if span is None or not len(again):
        return
    rows = again["row"].tolist()
    names = sorted({str(name).removeprefix("aten::") for name in again["name"]})
    yield Sighting(
        message=f"Constants ({', '.join(names)}) are made anew {len(rows) / span.per:.3g} times per {span.unit} with "
        f"the same arguments: {share(trace, rows):.1%} of {whole(trace)}.",
        where=where_of(trace, rows[0]),
        evidence={
            "made_again": len(rows),
            "kinds": int(again["kind"].nunique()),
            "names": names,
            "time_ns": int(again["dur_ns"].sum()),
            "share": share(trace, rows),
        },
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows, 0.0)),
        basis="each constant made once a step",
    )


def _again(trace: Trace, per_step: float) -> pd.DataFrame:
    """All constants that are made for a second time in a step, or more: columns of `ops`, and kind."""
    table, told, steps = _repeated(trace, per_step), made_again(trace), used_steps(trace).index
    table = table[table.duplicated(["step", "kind"])]
    derived = ops(trace).merge(told[told["constant"] & ~told["row"].isin(table["row"])], on="row")
    derived = _in_every_step(derived, per_step - 1, len(steps), steps)  # those that come again: one fewer
    derived = derived.assign(kind=derived["kind"] + 1 + table["kind"].max() if len(table) else derived["kind"])
    return pd.concat([table, derived[table.columns]]).sort_values("start_ns")


def _repeated(trace: Trace, per_step: float) -> pd.DataFrame:
    """Constants made `per_step` times or more in every judged step: columns of `ops`, and kind."""
    steps = used_steps(trace).index
    makes = _called(trace, MAKES)
    makes = _in_every_step(makes, per_step, len(steps), steps)
    counts = set(makes.groupby(["step", "kind"]).size().tolist())
    derived = _in_every_step(_called(trace, DERIVES), per_step, len(steps), steps)
    as_often = derived.groupby(["step", "kind"])["row"].transform("size").isin(counts)
    derived = derived[as_often].assign(kind=-1 - derived["kind"][as_often])  # numbered apart from the others
    return pd.concat([makes, derived]).sort_values("start_ns")


def _called(trace: Trace, test: Callable[[str], object]) -> pd.DataFrame:
    """The outermost ops of these names in the forward pass; kind: same name and same arguments."""
    rows = trace.rows_named(test, ("cpu_op",))
    rows = rows[outermost_named(trace, rows, test) == rows]
    rows = rows[~inside_named(trace, rows, NOT_THE_FORWARD_PASS)]
    rows = rows[~np.isin(rows, np.array(sorted(overwritten(trace)), np.int64))]
    table = ops(trace)
    table = table[table["row"].isin(rows)].sort_values("row")
    codes = [trace.events.text(argument).at(table["row"].to_numpy(np.int64), -1) for argument in GIVEN]
    codes.append(trace.events.name[table["row"].to_numpy(np.int64)].astype(np.int64))
    known = codes[0] >= 0
    _, kind = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return table.assign(kind=kind.reshape(-1))[known]


def _in_every_step(table: pd.DataFrame, per_step: float, count: int, steps: pd.Index) -> pd.DataFrame:
    table = table[table["step"].isin(steps)]
    sizes = table.groupby(["kind", "step"]).size()
    enough = sizes[sizes >= per_step].groupby("kind").size()
    return table[table["kind"].isin(enough[enough == count].index)]


RULE = Rule(
    code="PYB004",
    name="recomputed-constants",
    doc=__doc__,
    find=find,
    needs=(Has.STEPS, Has.OPS, Has.SHAPES),
    thresholds={"per_step": Threshold(3, "times per step", "one or two are a model's input and its mask (RULES.md)")},
)
