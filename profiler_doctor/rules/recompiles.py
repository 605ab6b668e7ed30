"""A compiled function is compiled again and again, because its inputs do not keep what was assumed of them.

What it finds
    Compilations after a function's first one within the judged steps, where they come back: in more than one step, or
    a third time for the same function. Where our own capture watched the run it names the line and the guards that
    failed. Also a function that met torch's limit of recompilations and has run uncompiled since.

Why it costs
    Each compilation takes as long as thousands of calls, and each version that is kept adds guards to be checked at
    every call. At the limit (8 versions) torch gives up, with one line in the log.

What to do
    Say what varies: `torch.compile(model, dynamic=True)`, or `torch._dynamo.mark_dynamic(x, 0)` on the input. Or let
    less vary: pad lengths to a few sizes, pass numbers that change as tensors.

When not to
    One recompilation for each function is the rule: torch takes a second size for a sign that the size varies, and
    compiles for all sizes then. That is not named here.

Source
    PyTorch's documentation of recompilation; RULES.md, COM002; huggingface/accelerate#3543.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from profiler_doctor.analyzer.compile_facts import Recompile
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.compiles import compiles, ever_compiled
from profiler_doctor.analyzer.measures.compiles import recompiles as recompiled
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

WHOLE_RECORDING = -1
"""The step of everything where no steps are marked."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding on the compilations that were recorded; else one on each function at its limit."""
    again = _in_window(trace)
    if _comes_back(again, limits["turns"]):
        yield _recorded(trace, again)
    else:
        yield from _at_the_limit(trace, limits["limit"])


def _in_window(trace: Trace) -> pd.DataFrame:
    """Compilations after the first one of their function that begin in the judged steps."""
    made, used = compiles(trace), used_steps(trace)
    again = made[made["turn"] > 0]
    return again[again["step"].isin(used.index)] if len(used) else again.assign(step=WHOLE_RECORDING)


def _comes_back(again: pd.DataFrame, turns: float) -> bool:
    return again["step"].nunique() > 1 or bool((again["turn"] >= turns).any())


def _recorded(trace: Trace, again: pd.DataFrame) -> Sighting:
    steps, causes = again["step"].nunique(), _causes(trace)
    per = len(again) / steps
    often = f"{per:.3g} times a step" if len(used_steps(trace)) else f"{len(again)} times in the recording"
    why = f" Because: {causes[0].guards[-1].rstrip('.')}." if causes and causes[0].guards else ""
    return Sighting(
        message=f"Functions that are compiled already are compiled again, {often}.{why}",
        where=_where(trace, causes, int(again["row"].iloc[0])),
        evidence={
            "recompilations": len(again),
            "steps": int(steps),
            "highest_turn": int(again["turn"].max()),
            "time_ns": int(again["dur_ns"].sum()),
            "guards": [guard for cause in causes for guard in cause.guards][:8],
        },
        intervals_ns=places(again),
        edit=Edit(keep=dict.fromkeys(again["row"].tolist(), 0.0)),
        basis="without the recompilations",
    )


def _at_the_limit(trace: Trace, limit: float) -> Iterator[Sighting]:
    """Nothing is compiled any more, because torch has given up, or soon will: what that costs only a trial can tell."""
    steps = judged_steps(trace)
    for cause in _causes(trace):
        if cause.limit_hit:
            yield Sighting(
                message=f"{cause.function or 'A function'} met torch's limit of recompilations and runs uncompiled "
                f"since then. Because: {cause.guards[-1].rstrip('.') if cause.guards else 'not told'}.",
                where=Where(file=cause.file or None, line=cause.line or None),
                evidence={"recompilations": cause.count, "guards": list(cause.guards)},
                intervals_ns=steps,
            )
            return
    if not ever_compiled(trace):
        return
    table = recompiled(trace)
    close = table[table["highest_turn"] >= limit]
    if len(close):
        turns = int(close["highest_turn"].max())
        yield Sighting(
            message=f"A function has been compiled {turns + 1} times; torch gives up after 8 and then runs it "
            "uncompiled.",
            where=_where(trace, _causes(trace), -1),
            evidence={"versions": turns + 1, "frames": close["frame"].tolist()},
            intervals_ns=steps,
        )


def _causes(trace: Trace) -> Sequence[Recompile]:
    """What our capture heard of, the most frequent first; what only goes on after a graph break comes last."""
    heard = trace.facts.compiles.recompiles if trace.facts is not None else ()
    return sorted(heard, key=lambda one: (one.function.startswith("torch_dynamo_resume"), -one.count))


def _where(trace: Trace, causes: Sequence[Recompile], row: int) -> Where:
    op = trace.events.name_of(row) if row >= 0 else "torch.compile"
    if causes and causes[0].file:
        return Where(file=causes[0].file, line=causes[0].line, op=op)
    return where_of(trace, row) if row >= 0 else Where(op=op)


RULE = Rule(
    code="COM002",
    name="recompiles",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "turns": Threshold(2, "recompilations", "one is torch's own way to learn that a size varies"),
        "limit": Threshold(7, "recompilations", "of torch's 8 versions the last one is in use (recompile_limit)"),
    },
)
