"""A JAX function is called for one sample after the other, though all of them are there.

What it finds
    A loop in a function that makes the steps, or in one that it calls, that calls a function of the script's own at
    least 8 times in a step, each time with arguments of the same shapes, and carries nothing from one call to the next:
    a list comprehension, a sum, a loop that does nothing but append. Also where each step is such a call, out of a
    comprehension over an array. If the loop itself is not compiled, only if XLA computes for less than half of the
    time.

Why it costs
    Each sample pays for the start of each program, and for Python; matrices that could be multiplied at once are read
    again for every sample. Inside `jit` the loop is unrolled: the program grows with the number of samples, and with it
    the time to compile it.

What to do
    `jax.vmap(predict, in_axes=(None, 0))(params, xs)` for `[predict(params, x) for x in xs]`; `jax.jit` around it.

When not to
    Where a sample needs what came out of the one before it (that is `jax.lax.scan`), and where one sample fills the
    machine by itself, or all of them do not fit into memory.

Source
    JAX's documentation, "Automatic vectorization".
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.xla_programs import computed_share
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """A finding for each loop."""
    facts = trace.facts.jax if trace.facts is not None else None
    share = computed_share(trace)
    if facts is None or share is None:
        return
    for loop in facts.loops:
        unrolled = facts.jitted and not loop.outside
        if loop.calls >= limits["calls"] and (unrolled or share <= limits["computed"]):
            yield Sighting(
                message=f"{loop.callee} is called for one sample after the other, {loop.calls} "
                f"{'in a row' if loop.outside else 'times in a step'}, in a loop of {loop.function}; `jax.vmap` "
                "computes them at once.",
                where=Where(file=loop.file, line=loop.line),
                evidence={"calls": loop.calls, "callee": loop.callee, "computed_share": share},
            )


RULE = Rule(
    code="JAX002",
    name="loop-over-samples",
    doc=__doc__,
    find=find,
    needs=(Has.STEPS, Has.OPS, Has.CAPTURE),
    thresholds={
        "calls": Threshold(8, "calls a step", "a few are a choice: two heads, four views of an image"),
        "computed": Threshold(0.5, "of the step", "where XLA computes for longer, starting programs costs less"),
    },
)
