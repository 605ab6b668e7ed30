"""An ONNX graph still spells out what ONNX Runtime has a single operator for.

What it finds
    In the order of execution: layer norm, RMS norm, Gelu (both forms), attention and rotary embeddings as chains of
    simple operators; casts and transposes one after the other. Where the model file lies beside the profile its edges
    must agree.

Why it costs
    Each operator of a chain reads and writes the whole tensor; a fused one does it once, in registers in between.

What to do
    Optimise with the model's type: `onnxruntime.transformers.optimizer.optimize_model(path, model_type="bert")`; use
    ORT_ENABLE_ALL; export with a newer opset, which keeps LayerNormalization and Gelu whole.

When not to
    On providers without the fused operator. An estimate that the longest of the nodes (all matrix products) stays is a
    bound, not a promise.

Source
    ONNX Runtime's documentation of graph optimizations and of its transformers tool; RULES.md, ONX003.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.nodes import (
    PRODUCTS,
    Missed,
    Node,
    graph_beside,
    missed_fusions,
    node_runs,
)
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """One finding for each operator that would stand for the chains."""
    runs = node_runs(trace)
    if not len(runs):
        return
    by_step = [(own.reset_index(drop=True), _missed(trace, own)) for _, own in runs.groupby("step", sort=True)]
    for becomes in dict.fromkeys(one.becomes for _, missed in by_step for one in missed):
        chains = [(own, one) for own, missed in by_step for one in missed if one.becomes == becomes]
        yield _sighting(becomes, chains, len(by_step))


def _missed(trace: Trace, own: pd.DataFrame) -> Sequence[Missed]:
    known = graph_beside(trace)
    named = zip(own["op"].tolist(), own["node"].tolist(), strict=True)
    return missed_fusions([known.get(name, Node(op, name)) for op, name in named])


def _sighting(becomes: str, chains: Sequence[tuple[pd.DataFrame, Missed]], steps: int) -> Sighting:
    shares: dict[int, float] = {}
    for own, one in chains:
        nodes = own.iloc[list(one.places)]
        longest = nodes["row"].iloc[int(nodes["dur_ns"].to_numpy().argmax())]
        stays = nodes["op"].isin(PRODUCTS) if nodes["op"].isin(PRODUCTS).any() else nodes["row"] == longest
        shares |= dict.fromkeys(nodes["row"][~stays].tolist(), 0.0)
    first = chains[0][1].nodes
    spelled = Counter(" ".join(node.op for node in one.nodes) for _, one in chains).most_common(1)[0][0]
    spans = pd.DataFrame(
        {
            "start_ns": [own["start_ns"].iloc[one.places[0]] for own, one in chains],
            "end_ns": [own["end_ns"].iloc[one.places[-1]] for own, one in chains],
        }
    )
    each = len(chains) / max(steps, 1)
    return Sighting(
        message=f"{each:.3g} times a run the graph spells out what {becomes} could do: {spelled}.",
        where=Where(op=first[0].op, module=first[0].name or None),
        evidence={"becomes": becomes, "chains": len(chains), "nodes": [node.name for node in first]},
        intervals_ns=places(spans),
        edit=Edit(keep=shares),
        basis="the longest node of each chain, and all matrix products, stay",
    )


RULE = Rule(code="ONX003", name="missed-fusion", doc=__doc__, find=find, needs=(Has.OPS,))
