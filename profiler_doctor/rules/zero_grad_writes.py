"""Gradients are overwritten with zeros before each step, though they could simply be dropped.

What it finds
    `zero_` or `_foreach_zero_` inside an optimizer's zero_grad.

Why it costs
    Writing zeros is a pass over memory as large as the model, and the backward pass then reads them again to add to
    them. Gradients that are None are just set by the backward pass.

What to do
    `optimizer.zero_grad(set_to_none=True)`, the default since PyTorch 2.0: take the `False` away.

When not to
    With CUDA graphs (no finding where graphs are launched) gradients have to stay where they are. Code that reads
    `p.grad` of parameters without a gradient has to expect None.

Source
    PyTorch's performance tuning guide, "disable gradient zeroing"; RULES.md, OPT003.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.optimizers import optimizer_ops
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace

WRITES = ("aten::zero_", "aten::_foreach_zero_", "aten::fill_")


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all optimizers of the window."""
    table, span = optimizer_ops(trace), window(trace)
    table = table[(table["what"] == "zero_grad") & table["name"].isin(WRITES)]
    if span is None or not len(table) or (host_calls(trace)["kind"] == "graph_launch").any():
        return
    rows = table["row"].tolist()
    yield Sighting(
        message=f"Gradients are filled with zeros {len(rows) / span.per:.3g} times per {span.unit}, which is "
        f"{share(trace, rows):.1%} of {whole(trace)}.",
        where=where_of(trace, rows[0]),
        evidence={
            "writes": len(rows),
            "time_ns": int(table["dur_ns"].sum()),
            "optimizers": sorted(set(table["optimizer"])),
            "share": share(trace, rows),
        },
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows, 0.0)),
        basis="the writes alone; the backward pass saves reading them too",
    )


RULE = Rule(
    code="OPT003",
    name="zero-grad-writes",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
)
