"""Part of the recorded time is not the program's work but the compiling of it.

What it finds
    First compilations of functions (dynamo's and inductor's slices) within the judged steps. Compilations after a
    function's first one are the rule `recompiles`'s, and not counted here.

Why it costs
    A compilation takes seconds where a call takes milliseconds. Paid once it belongs to the start, and a recording that
    holds it says little of the steady state; paid in each step it is the step's largest part.

What to do
    Once: make more warm-up calls before you measure, with every shape that will come. In each step: compile outside of
    the loop, and do not make the compiled function, or the model, anew in it.

When not to
    Where the start-up itself is what you want to see.

Source
    RULES.md, COM001; PyTorch's documentation of torch.compile ("warm-up").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.compiles import compiles
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding: all first compilations in the judged steps."""
    first = _in_window(trace)
    if not len(first):
        return
    steps = len(used_steps(trace))
    back = steps > 1 and first["step"].nunique() == steps
    how = "in every step" if back else "in the recorded time: a warm-up that was too short"
    longest = int(first["row"].iloc[int(first["dur_ns"].to_numpy().argmax())])
    yield Sighting(
        message=f"Functions are compiled {how} ({len(first)} compilations, {first['dur_ns'].sum() / 1e9:.3g} s).",
        where=_where(trace, longest),
        evidence={"compilations": len(first), "time_ns": int(first["dur_ns"].sum()), "in_every_step": back},
        intervals_ns=places(first),
        edit=Edit(keep=dict.fromkeys(first["row"].tolist(), 0.0)),
        basis="without the compilations",
    )


def _in_window(trace: Trace) -> pd.DataFrame:
    made, used = compiles(trace), used_steps(trace)
    first = made[made["turn"] <= 0]
    return first[first["step"].isin(used.index)] if len(used) else first


def _where(trace: Trace, row: int) -> Where:
    """The line of the compiled call, from stacks; else where our capture saw most compilations begin."""
    known = where_of(trace, row)
    heard = trace.facts.compiles.compiled_at if trace.facts is not None else ()
    if known.file is not None or not heard:
        return known
    most = max(heard, key=lambda place: place.count)
    return replace(known, file=most.file, line=most.line)


RULE = Rule(code="COM001", name="compile-in-window", doc=__doc__, find=find, needs=(Has.OPS,))
