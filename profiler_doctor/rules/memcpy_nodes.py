"""ONNX Runtime copies tensors between CPU and GPU in the middle of the graph.

What it finds
    The nodes MemcpyFromHost and MemcpyToHost, which ONNX Runtime puts in wherever a node on one device reads what a
    node on the other one wrote.

Why it costs
    Each is a transfer, and the node behind it waits for it; a copy to the host also makes the GPU run dry.

What to do
    Find the node between the copies that has no kernel on the GPU (the rule `ep-fallback` names them), and replace it,
    or export with a newer opset. Inputs and outputs that stay on the GPU are bound with `io_binding()`.

When not to
    Small integer tensors that only describe shapes are computed on the CPU on purpose; their copies are short.

Source
    ONNX Runtime's documentation of execution providers and of I/O binding; RULES.md, ONX001.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.nodes import node_runs
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

COPIES = ("MemcpyFromHost", "MemcpyToHost")


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding: all copies of the judged runs."""
    runs = node_runs(trace)
    copies = runs[runs["op"].isin(COPIES)]
    if not len(copies):
        return
    counts = copies["op"].value_counts().to_dict()
    yield Sighting(
        message=f"{copies['node'].nunique()} nodes of the graph only copy between CPU and GPU "
        f"({', '.join(f'{op} ×{count}' for op, count in sorted(counts.items()))} in the judged runs).",
        where=Where(op=str(copies["op"].iloc[0]), module=str(copies["node"].iloc[0]) or None),
        evidence={
            "copies": len(copies),
            "time_ns": int(copies["dur_ns"].sum()),
            "nodes": copies["node"].unique().tolist()[:20],
        },
        intervals_ns=places(copies),
        edit=Edit(keep=dict.fromkeys(copies["row"].tolist(), 0.0)),
        basis="without the copies; what waits for them is not counted",
    )


RULE = Rule(code="ONX001", name="memcpy-nodes", doc=__doc__, find=find, needs=(Has.OPS,))
