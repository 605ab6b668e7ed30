"""The script ends before its compiling can have paid.

What it finds
    A script that ended by itself, compiled with torch.compile, and made fewer steps than are needed to win the
    compiling back even if a step took twice as long without it.

Why it costs
    Compiling takes seconds, or minutes, before the first result. What a compiled step saves it earns only step by step.

What to do
    Leave torch.compile out of short runs. Or make the start cheap: keep the caches (`TORCHINDUCTOR_CACHE_DIR` on a disk
    that stays, `torch.compiler.save_cache_artifacts`), compile ahead of time (AOTInductor), or compile one repeated
    block (regional compilation) instead of the whole model.

When not to
    Where this run was only a trial of a longer one. With warm caches a start takes a fraction of the first one's time:
    the report says how many lookups of the caches succeeded.

Source
    RULES.md, COM005; PyTorch's tutorials on compile-time caching and on regional compilation.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for the run. What compiling saves is not known here: a factor stands for it."""
    facts = trace.facts
    if facts is None or not facts.steps_made or not facts.step_ns or facts.compiles.compile_s < limits["seconds"]:
        return
    seconds, step_s = facts.compiles.compile_s, median(facts.step_ns) / 1e9
    needed = int(seconds / (step_s * (limits["times"] - 1)))
    if needed <= limits["margin"] * facts.steps_made or _still_compiling(trace):
        return
    hits, misses = facts.compiles.cache_hits, facts.compiles.cache_misses
    cache = f" (caches: {hits} hits, {misses} misses)" if hits or misses else ""
    yield Sighting(
        message=f"Compiling took {seconds:.3g} s{cache}. Even if it made each step {limits['times']:g} times as fast, "
        f"it would pay after {needed:,} steps; the script made {facts.steps_made:,}.",
        where=Where(op="torch.compile"),
        evidence={
            "compile_s": round(seconds, 3),
            "compilations": facts.compiles.compilations,
            "break_even_steps": needed,
            "steps_made": facts.steps_made,
            "cache_hits": hits,
            "cache_misses": misses,
        },
        intervals_ns=judged_steps(trace),
    )


def _still_compiling(trace: Trace) -> bool:
    """Whether the steps themselves compile: that is another illness, and their time says nothing of a compiled step."""
    facts = trace.facts
    return facts is not None and facts.compiles.compilations >= facts.steps_made


RULE = Rule(
    code="COM005",
    name="cold-start-break-even",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE,),
    thresholds={
        "seconds": Threshold(1.0, "s of compiling", "below, nobody waits for it"),
        "times": Threshold(2.0, "times as fast", "more than torch.compile brings most models on one device"),
        "margin": Threshold(2.0, "times the steps made", "so that the factor may be off by two"),
    },
)
