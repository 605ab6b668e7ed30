"""The nodes of an ONNX graph: as ONNX Runtime ran them, and as a model file holds them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.trace import Trace, measure

CPU = "CPUExecutionProvider"
ON_GPU = re.compile(r"CUDA|Tensorrt|ROCM|MIGraphX|Dml|WebGpu|CANN|JsExecution", re.IGNORECASE)
"""Execution providers that run nodes on a GPU."""
FUSIONS = {
    "LayerNormalization": r"ReduceMean Sub (?:Cast )?(?:Pow|Mul) ReduceMean Add Sqrt Div(?: Cast)? Mul Add",
    "SimplifiedLayerNormalization": r"(?:Pow|Mul) ReduceMean Add Sqrt (?:Reciprocal|Div)(?: Cast)? Mul(?: Mul)?",
    "Gelu": r"(?:Div|Mul) Erf Add Mul(?: Mul)?",
    "FastGelu": r"(?:Pow|Mul Mul) Mul Add Mul Tanh Add Mul(?: Mul)?",
    "Attention": r"(?:Fused)?MatMul (?:(?:Div|Mul|Add|Where) )*Softmax (?:Cast )?(?:Fused)?MatMul",
    "RotaryEmbedding": r"(?:(?:Slice Slice|Split)(?: Mul)? Neg|Slice Neg Slice)(?: Mul)? Concat Mul(?: Mul)? Add",
    "one Cast": "Cast Cast",
    "one Transpose": "Transpose Transpose",
}
"""What ONNX Runtime's own optimisers make of it → the operators that spell it out, in the order of execution."""
ONLY_BY_EDGES = ("one Cast", "one Transpose")
"""Two of a kind side by side mean nothing where it is not known that one reads what the other wrote."""
PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul"})
"""Operators whose work a fused node still does."""


@dataclass(frozen=True)
class Node:
    """One node in order of execution. `inputs` and `outputs` are names of tensors, () where they are not known."""

    op: str
    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missed:
    """Nodes (places in the sequence that was searched) that one fused operator could stand for."""

    becomes: str
    places: tuple[int, ...]
    nodes: tuple[Node, ...] = field(default=())


@measure
def node_runs(trace: Trace) -> pd.DataFrame:
    """Every run of a node in an ONNX Runtime profile within the judged runs of the model, in time order.

    Columns: row, op (the operator), node (its name), provider, start_ns, end_ns, dur_ns, step (index, -1), bytes (of
    its outputs, -1 where the profile does not say). Empty for every other kind of trace.
    """
    events = trace.events
    rows = trace.rows("cpu_op") if trace.format == "ort" else np.empty(0, np.int64)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    steps, used = step_at(trace, events.start_ns[rows]), used_steps(trace)
    if len(used):
        inside = np.isin(steps, used.index.to_numpy())
        rows, steps = rows[inside], steps[inside]
    provider, node = events.text("provider"), events.text("Node name")
    return pd.DataFrame(
        {
            "row": rows,
            "op": events.names_at(rows),
            "node": [node.text_at(row) or "" for row in rows.tolist()],
            "provider": [provider.text_at(row) or "" for row in rows.tolist()],
            "start_ns": events.start_ns[rows],
            "end_ns": events.ends_at(rows),
            "dur_ns": np.maximum(events.dur_ns[rows], 0),
            "step": steps,
            "bytes": events.column("output_size").at(rows, -1),
        }
    )


def missed_fusions(nodes: Sequence[Node]) -> list[Missed]:
    """The patterns among nodes in order of execution that an optimiser would have fused; no node is in two of them.

    Where the nodes know their tensors, each node of a pattern must read what an earlier one of it wrote; patterns that
    only stand side by side do not count.
    """
    words = [node.op for node in nodes]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    text, taken, found = "".join(f"{word} " for word in words), np.zeros(len(words), np.bool_), []
    for becomes, pattern in FUSIONS.items():
        for match in re.finditer(rf"(?<![^ ])(?=({pattern}) )", text):  # looks ahead only, so matches may overlap
            places = range(int(np.searchsorted(starts, match.start())), int(np.searchsorted(starts, match.end(1))))
            chain = tuple(nodes[place] for place in places)
            strict = becomes in ONLY_BY_EDGES
            known = not strict or all(node.inputs for node in chain)
            if known and not taken[places.start : places.stop].any() and _linked(chain, strict=strict):
                taken[places.start : places.stop] = True
                found.append(Missed(becomes, tuple(places), chain))
    return sorted(found, key=lambda missed: missed.places)


def _linked(chain: Sequence[Node], *, strict: bool) -> bool:
    """Whether every node but the first reads what one before it in the chain wrote, as far as tensors are known.

    Not `strict`, a node may also begin at the tensor that the first one begins at, as halves of a rotation do.
    """
    there = {*chain[0].outputs, *(() if strict else chain[0].inputs)}
    for node in chain[1:]:
        if node.inputs and there and not there & set(node.inputs):
            return False
        there |= set(node.outputs)
    return True


def nodes_of(model_file: Path) -> list[Node]:
    """The nodes of an ONNX model in its own (topological) order; [] where there is no `onnx` package or no model.

    Weights in other files are not read.
    """
    try:
        import onnx

        model = onnx.load(str(model_file), load_external_data=False)
    except Exception:  # whatever is wrong with the file, the profile beside it is still one
        return []
    return list(_nodes(model.graph))


def _nodes(graph: Any) -> Iterator[Node]:
    for node in graph.node:
        yield Node(str(node.op_type), str(node.name), tuple(node.input), tuple(node.output))


@measure
def graph_beside(trace: Trace) -> dict[str, Node]:
    """Name → node of the model that lies beside an ONNX Runtime profile, where exactly one has the profile's nodes."""
    folder = Path(trace.source).parent
    files = sorted(folder.glob("*.onnx")) if trace.format == "ort" and folder.is_dir() else []
    ran = set(node_runs(trace)["node"]) - {""}
    fitting = [known for file in files[:8] if ran <= (known := {node.name: node for node in nodes_of(file)}).keys()]
    return fitting[0] if len(fitting) == 1 and ran else {}
