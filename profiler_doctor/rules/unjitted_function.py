"""A JAX function is called step after step without `jax.jit`, and hands XLA one small program after the other.

What it finds
    A function of the script's own that makes the steps, in which each step starts many compiled programs, while XLA
    computes for only a small part of the step. Where that function is compiled already, the same of what the loop does
    around it.

Why it costs
    Outside `jit` every operation is a program of its own: Python looks it up, XLA starts it, and its result goes to
    memory and back. Inside `jit` the function is one program: nothing is looked up, and operations are fused (40 tiny
    layers became 40 times as fast, measured).

What to do
    Put `jax.jit` around the function, and pass what is no array (a mode, a number of layers) as static argument. What
    stands around a compiled function goes into it, or into one of its own.

When not to
    Where the function branches in Python on values of arrays, prints, counts, or uses NumPy's random numbers: tracing
    freezes these. `jax.lax.cond`, `jax.debug.print` and `jax.random` take their place.

Source
    JAX's documentation, "Just-in-time compilation"; VERIFY.md, section 7.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.xla_programs import PROGRAMS, computed_share, programs_a_step
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: the function that makes the steps."""
    facts = trace.facts.jax if trace.facts is not None else None
    share, a_step = computed_share(trace), programs_a_step(trace)
    if facts is None or not facts.function or share is None:
        return
    if a_step < limits["programs"] or share > limits["computed"]:
        return
    said = "is compiled, but what the loop does around it is not" if facts.jitted else "is called without jit"
    yield Sighting(
        message=f"{facts.function} {said}: each step starts {a_step:.0f} programs, and XLA computes for {share:.0%} "
        "of it.",
        where=Where(file=facts.file, line=facts.line),
        evidence={"programs_per_step": a_step, "computed_share": share, "function": facts.function},
    )


RULE = Rule(
    code="JAX001",
    name="unjitted-function",
    doc=__doc__,
    find=find,
    needs=(Has.STEPS, Has.OPS, Has.CAPTURE),
    thresholds={
        "programs": Threshold(PROGRAMS, "programs a step", "a jitted step, its loss and a metric are three"),
        "computed": Threshold(0.5, "of the step", "where XLA computes for longer, starting programs costs less"),
    },
)
