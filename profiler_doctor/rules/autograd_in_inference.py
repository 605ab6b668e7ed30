"""A forward pass keeps all it would need for a backward pass that never comes.

What it finds
    Grad mode is on in every call of the model and its outputs require grad, but in the whole observed run there was no
    backward pass and no optimizer step. In a trace of somebody else's recording: in every one of at least three marked
    steps autograd nodes were made, and the file holds no backward pass and no optimizer step.

Why it costs
    For each op autograd makes a node and keeps its inputs alive, so that memory cannot be used again within the step.
    Small ops feel the bookkeeping, large ones the memory that has to be mapped anew.

What to do
    `with torch.inference_mode():` around the loop (or `torch.no_grad()` where the outputs must take part in autograd
    later). `model.eval()` is another matter: it changes dropout and batch norm, not autograd.

When not to
    Where gradients are taken outside of what was observed: accumulation over more steps than were watched, or outputs
    that are kept for a backward pass at the end. How much it brings depends on the size of the ops; a trial tells.

Source
    PyTorch's notes on autograd mechanics (locally disabling gradient computation); pytorch/pytorch#91794.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.facts import Facts, RootFacts
from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.share import judged_steps, trains
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.trace import Ints, Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for a run of our own capture by its facts, else one for a trace by its sequence numbers."""
    if trains(trace):
        return
    yield from _observed(trace, trace.facts) if trace.facts is not None else _foreign(trace, limits)


def _observed(trace: Trace, facts: Facts) -> Iterable[Sighting]:
    kept = [root for root in facts.roots if _keeps_a_graph(root)]
    if not kept:
        return
    nodes, first = _nodes_per_step(trace)
    names = " and ".join(root.name for root in kept)
    yield Sighting(
        message=f"{names} ran {sum(root.calls for root in kept)} times with grad mode on, and nothing was ever "
        "differentiated.",
        where=where_of(trace, first),
        evidence={
            "roots": [root.name for root in kept],
            "calls": sum(root.calls for root in kept),
            "backward_calls": facts.backward_calls,
            "optimizer_steps": facts.optimizer_steps,
            "training_mode": any(root.training for root in kept),
            "nodes_per_step": int(np.median(nodes)) if len(nodes) else 0,
        },
        intervals_ns=judged_steps(trace),
    )


def _keeps_a_graph(root: RootFacts) -> bool:
    return root.grad_enabled and root.output_requires_grad and root.calls > 0


def _foreign(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    nodes, first = _nodes_per_step(trace)
    if len(nodes) < limits["steps"] or nodes.min() < limits["nodes"]:
        return
    yield Sighting(
        message=f"{int(np.median(nodes))} autograd nodes are made in each step, and no backward pass was recorded.",
        where=where_of(trace, first),
        evidence={"nodes_per_step": int(np.median(nodes)), "steps": len(nodes)},
        intervals_ns=judged_steps(trace),
    )


def _nodes_per_step(trace: Trace) -> tuple[Ints, int]:
    """How many nodes autograd made in each judged step, and the first op that made one (-1: none).

    The profiler writes the number that the next node will get: it goes up whenever one is made.
    """
    table = ops(trace)
    table = table.assign(number=trace.events.column("Sequence number").at(table["row"].to_numpy(), -1))
    table = table[(table["number"] >= 0) & (table["step"] >= 0) & table["is_op"]]
    made = table.groupby("step")["number"].nunique() - 1
    judged = made.reindex(used_steps(trace).index, fill_value=0).clip(lower=0).to_numpy().astype(np.int64)
    numbers = table["number"].to_numpy()
    making = np.flatnonzero(numbers[1:] > numbers[:-1])  # the op before a number goes up has made the node
    first = np.flatnonzero(numbers == numbers[making[0]]) if len(making) else making
    return judged, int(table["row"].iloc[int(first[0])]) if len(first) else -1


RULE = Rule(
    code="OPT004",
    name="autograd-in-inference",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "steps": Threshold(2, "judged steps", "with one step the backward pass may lie outside a cut window"),
        "nodes": Threshold(4, "nodes per step", "a graph of a few nodes costs nothing, and may be a preparation"),
    },
)
