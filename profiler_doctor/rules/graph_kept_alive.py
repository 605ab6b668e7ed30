"""The autograd graphs of past steps stay alive, because a variable still holds on to them.

What it finds
    A variable whose tensors have ever more autograd nodes behind them: at least one more for each step, and as many
    more in each of two stretches of steps, so that a graph that changes with its input is not taken for one that grows.
    Our own capture counts them between un-profiled steps, in variables of the functions under way.

Why it costs
    Memory, mostly: the nodes of a graph keep what they saved for the backward pass, as far as that was not run, and
    each step adds its own. A long run ends out of memory. Of time nothing is claimed.

What to do
    Take the number out of the graph where it is added up: `total += loss.item()`, or `total += loss.detach()`, which on
    a GPU does not wait; `outputs.append(out.detach())` for results that are kept.

When not to
    Where the backward pass is meant to run over several steps, as in truncated backpropagation through time or
    meta-learning: there the graph shrinks again, at its end.

Source
    PyTorch's FAQ ("Don't accumulate history across your training loop"); RULES.md, MEM003.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, of memory alone."""
    growth = trace.facts.growth if trace.facts else None
    if growth is None or growth.steps <= 0:
        return
    per_step = (growth.nodes_after - growth.nodes_before) / growth.steps
    until = growth.steps_between or growth.steps / 2
    halves = (
        (growth.nodes_between - growth.nodes_before) / until,
        (growth.nodes_after - growth.nodes_between) / (growth.steps - until),
    )
    if per_step < limits["nodes"] or min(halves) < limits["steady"] * max(halves):
        return
    if growth.nodes_in_one_step is not None and per_step < limits["steady"] * growth.nodes_in_one_step:
        return  # it falls back in between, as a sum over micro-batches does
    yield Sighting(
        message=f"The autograd graph behind `{growth.holder}` grows by {per_step:.3g} nodes in each step, and is never "
        "let go.",
        where=Where(file=growth.file or None, line=growth.line or None, op=growth.holder),
        evidence={
            "variable": growth.holder,
            "nodes_before": growth.nodes_before,
            "nodes_between": growth.nodes_between,
            "nodes_after": growth.nodes_after,
            "steps": growth.steps,
            "nodes_per_step": per_step,
        },
        intervals_ns=judged_steps(trace),
    )


RULE = Rule(
    code="MEM003",
    name="graph-kept-alive",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE,),
    thresholds={
        "nodes": Threshold(1, "autograd nodes per step", "the addition alone makes one, whatever is added"),
        "steady": Threshold(
            0.75, "of the growth per step in the other half", "steps of one shape add equally many; some may differ"
        ),
    },
)
