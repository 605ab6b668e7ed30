"""Part of an ONNX graph runs on the CPU although the session has a GPU.

What it finds
    Nodes on the CPU provider that take more than 2 % of all nodes' time, in a profile in which a GPU provider runs
    nodes too. Nodes that only compute shapes, a few numbers each, do not count.

Why it costs
    The CPU is slower at it, and the tensors travel there and back.

What to do
    Look up why: the operator has no GPU kernel for this type or opset. Replace it, cast its input, export with another
    opset. `session.disable_cpu_ep_fallback` set to 1 makes a session fail instead of falling back, and so proves that
    nothing is left.

When not to
    Where the node needs tables or text that live on the host. Times of nodes on a GPU are how long they took to hand
    over, so the share is of the host's time.

Source
    ONNX Runtime's documentation of execution providers; RULES.md, ONX002.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.nodes import CPU, ON_GPU, node_runs
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

OF_SHAPES = re.compile(
    r"Shape|Size|Gather|Concat|(?:Uns|S)queeze|Slice|Cast|Range|Constant|ConstantOfShape|Reshape|Expand|Where|Equal|Add"
    r"|Sub|Mul|Div|Mod|Floor|Ceil|Less|Greater|Not|And|Or|Reduce(?:Prod|Max|Min)"
)
"""Operators that compute sizes from sizes."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: all nodes that fell back."""
    runs = node_runs(trace)
    on_gpu = [name for name in runs["provider"].unique() if ON_GPU.search(name)]
    if not on_gpu:
        return
    total = int(runs["dur_ns"].sum())
    fallen = runs[(runs["provider"] == CPU) & ~_of_shapes(runs, limits["shape_bytes"])]
    if not len(fallen) or fallen["dur_ns"].sum() <= limits["share"] * total:
        return
    by_op = fallen.groupby("op")["dur_ns"].sum().sort_values(ascending=False)
    share, beside = int(fallen["dur_ns"].sum()) / total, on_gpu[0].removesuffix("ExecutionProvider")
    yield Sighting(
        message=f"{fallen['node'].nunique()} nodes run on the CPU beside {beside}, {share:.1%} of all nodes' time: "
        f"{', '.join(by_op.index[:5])}.",
        where=Where(op=str(by_op.index[0]), module=str(fallen["node"].iloc[int(fallen["dur_ns"].to_numpy().argmax())])),
        evidence={
            "share": share,
            "runs": len(fallen),
            "ns_by_operator": {str(op): int(ns) for op, ns in by_op.items()},
        },
        intervals_ns=places(fallen),
        edit=Edit(keep=dict.fromkeys(fallen["row"].tolist(), 0.0)),
        basis="as if a GPU did it in no time",
    )


def _of_shapes(runs: pd.DataFrame, most_bytes: float) -> pd.Series[bool]:
    return runs["op"].str.fullmatch(OF_SHAPES) & (runs["bytes"] <= most_bytes)


RULE = Rule(
    code="ONX002",
    name="ep-fallback",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "share": Threshold(0.02, "of all nodes' time", "RULES.md; twice what a finding has to reach to matter"),
        "shape_bytes": Threshold(1024, "bytes of output", "128 sizes of 8 bytes: more is no shape"),
    },
)
