"""A JAX program compiles in step after step, because what it is given, or the function itself, is another each time.

What it finds
    Steps in which JAX writes programs for XLA and XLA compiles them, where at least half of the judged steps and at
    least two of them do, and it takes 5 % of their time. Where our own capture watched the run it names the reason: the
    function met arguments of other shapes, or the loop calls `jax.jit` and uses what it gives once.

Why it costs
    A program is compiled for one set of shapes and of static arguments. Compiling takes tens of milliseconds and more,
    a call of a program that is there microseconds. Outside of `jit` each operation is such a program.

What to do
    Call `jax.jit` once, before the loop. Pad arrays to a few sizes. Pass numbers that change as arguments that are
    traced, and not as static ones.

When not to
    At a program's start, and where a size changes for good: each is compiled once. `jax.config.update(
    "jax_compilation_cache_dir", …)` keeps programs for the next start.

Source
    JAX's documentation, "Just-in-time compilation".
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.jax_facts import JaxFacts
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.measures.xla_programs import compilations
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding: all that is compiled in the judged steps."""
    used = used_steps(trace)
    made = compilations(trace)
    made = made[made["step"].isin(used.index)]
    turns, spent_ns, total_ns = made["step"].nunique(), int(made["dur_ns"].sum()), int(used["dur_ns"].sum())
    if turns < limits["steps"] or turns < limits["turns"] * len(used) or spent_ns < limits["share"] * total_ns:
        return
    facts = trace.facts.jax if trace.facts is not None else None
    names = made.groupby("function")["dur_ns"].sum().sort_values(ascending=False).index.tolist()
    yield Sighting(
        message=f"Programs are compiled in {turns} of {len(used)} steps, which takes {spent_ns / total_ns:.0%} of "
        f"their time{_of(names)}. {_why(facts)}",
        where=Where(file=facts.file, line=facts.line) if facts is not None and facts.function else Where(),
        evidence={"steps": turns, "time_ns": spent_ns, "functions": names[:8]},
        intervals_ns=places(made),
        edit=Edit(keep=dict.fromkeys(made["row"].tolist(), 0.0)),
        basis="compiled once, before these steps",
    )


def _of(names: list[str]) -> str:
    known = [name for name in names if name]
    return f", most of it for {known[0]}" if known else ""


def _why(facts: JaxFacts | None) -> str:
    if facts is not None and facts.jitted and facts.objects > 2:
        return f"The loop compiles {facts.function} anew, and uses what `jax.jit` gives once."
    if facts is not None and facts.shapes > 2:
        return f"{facts.function} was given arguments of {facts.shapes} kinds of shapes in its first calls."
    return "Shapes, static arguments or the functions themselves are others each time."


RULE = Rule(
    code="JAX003",
    name="compiled-in-every-step",
    doc=__doc__,
    find=find,
    needs=(Has.STEPS, Has.OPS),
    thresholds={
        "steps": Threshold(2, "steps", "once is a start, or a size that changed for good"),
        "turns": Threshold(0.5, "of the steps", "the last, smaller batch of an epoch is compiled once"),
        "share": Threshold(0.05, "of the steps' time", "less is not worth another line"),
    },
)
