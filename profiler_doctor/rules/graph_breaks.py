"""A compiled model runs as several graphs instead of one, with Python between them.

What it finds
    Calls of compiled code inside which further compiled code is called: torch.compile met something that it could not
    put into its graph, ended the graph there, ran that in Python and went on with a new graph. Where our own capture
    watched the run it names the line, torch's reason with its number, and torch's hint. It then also knows of functions
    that torch gave up as a whole, because their graph ended within a loop or a block that it cannot leave: the steps
    run such a function uncompiled.

Why it costs
    Each graph is looked up, guarded and entered by itself; what lies between two of them cannot be fused, its results
    go through memory, and the GPU's queue may run dry meanwhile.

What to do
    Take the reason away: keep a value on the device instead of reading it (`clamp(min=…)` and `torch.where` for an
    `if` on `.item()`), move prints and other library calls out of the compiled part. `torch.compile(...,
    fullgraph=True)` proves that none is left.

When not to
    Where the code between the graphs has to run in Python. Several models of one step that are compiled by themselves
    are no breaks and not taken for them. What is at stake is at most the time between the graphs; what fusing across
    the break brings on top only a trial can tell.

Source
    PyTorch's documentation of graph breaks (their numbers are its own); RULES.md, COM003; pytorch/pytorch#98441.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.compile_facts import GraphBreak
from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.regions import broken_calls, region_calls
from profiler_doctor.analyzer.measures.share import judged_steps
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

RESUMED = re.compile(r"^(?P<file>.+)\(\d+\): torch_dynamo_resume_in_\w+_at_(?P<line>\d{1,9})$")
"""The Python frame in which a function goes on after a break, as the profiler names it."""
FRAME = re.compile(r"^(?P<file>.+)\((?P<line>\d{1,9})\): (?P<name>\w+)$")


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding: all calls in the judged steps that ran as more than one graph."""
    calls = _judged(trace, broken_calls(trace))
    breaks = _breaks(trace)
    if not len(calls):
        yield from _given_up(trace, breaks)
        return
    graphs = int(calls["graphs"].median())
    shares = 1 - calls["lost_ns"].to_numpy() / np.maximum(calls["dur_ns"].to_numpy(), 1)
    said = f" {_told(breaks)}" if breaks else ""
    yield Sighting(
        message=f"Compiled code runs as {graphs} graphs instead of one in each call, with Python between them.{said}",
        where=_where(trace, breaks, calls),
        evidence={
            "graphs_per_call": graphs,
            "calls": len(calls),
            "between_graphs_ns": int(calls["between_ns"].sum()),
            "breaks": [_plain(one) for one in breaks],
        },
        intervals_ns=places(calls),
        edit=Edit(keep=dict(zip(calls["row"].tolist(), shares.tolist(), strict=True))),
        basis="the time between the graphs, less what one graph needs",
    )


def _given_up(trace: Trace, breaks: Sequence[GraphBreak]) -> Iterable[Sighting]:
    """At most one finding, without a time: the recorded steps hold nothing of what the compiled function would take."""
    running = [one for one in breaks if one.uncompiled and _runs(trace, one)]
    if not running:
        return
    first = running[0]
    yield Sighting(
        message=f"Nothing of `{first.uncompiled}` is compiled: torch.compile gave the function up, and every step runs "
        f"it as if it had not been asked. {_told(running)}",
        where=Where(file=first.file or None, line=first.line or None, op="torch.compile"),
        evidence={"breaks": [_plain(one) for one in running]},
        intervals_ns=judged_steps(trace),
    )


def _runs(trace: Trace, broken: GraphBreak) -> bool:
    """Whether the function is seen running; where nobody recorded Python's frames, whether no compiled code is."""
    recorded = trace if trace.stacks is None else trace.stacks
    rows = recorded.rows_named(FRAME.match, ("python_function",))
    if not len(rows):
        return not len(region_calls(trace))
    names = (FRAME.match(name) for name in set(recorded.events.names_at(rows)))
    file = PurePosixPath(broken.file).name
    return any(
        one["name"] == broken.uncompiled and PurePosixPath(one["file"]).name == file and int(one["line"]) <= broken.line
        for one in names
        if one is not None
    )


def _judged(trace: Trace, calls: pd.DataFrame) -> pd.DataFrame:
    used = used_steps(trace)
    return calls[calls["step"].isin(used.index)] if len(used) else calls


def _breaks(trace: Trace) -> Sequence[GraphBreak]:
    """As our capture heard of them, the most frequent first; else what the names of Python frames tell."""
    if trace.facts is not None and trace.facts.compiles.breaks:
        return sorted(trace.facts.compiles.breaks, key=lambda one: -one.count)
    recorded = trace if trace.stacks is None else trace.stacks
    rows = recorded.rows_named(RESUMED.match, ("python_function",))
    found: dict[tuple[str, int], int] = {}
    for name in recorded.events.names_at(rows):
        if match := RESUMED.match(name):
            place = (match["file"], int(match["line"]))
            found[place] = found.get(place, 0) + 1
    return [GraphBreak(file=file, line=line, count=count) for (file, line), count in found.items()]


def _told(breaks: Sequence[GraphBreak]) -> str:
    first = breaks[0]
    more = f", and at {len(breaks) - 1} other place{'s' if len(breaks) > 2 else ''}" if len(breaks) > 1 else ""
    reason = f": {first.reason.rstrip('.')}" if first.reason else ""
    code = f" ({first.code})" if first.code else ""
    hint = f" Torch's hint: {first.hint.rstrip('.')}." if first.hint else ""
    return f"The graph ends at {PurePosixPath(first.file).name}:{first.line}{code}{more}{reason}.{hint}"


def _where(trace: Trace, breaks: Sequence[GraphBreak], calls: pd.DataFrame) -> Where:
    """The line of the first break; the op is the compiled call that it divides."""
    row = int(calls["row"].iloc[0])
    known = where_of(trace, row)
    if breaks and breaks[0].file:
        return Where(file=breaks[0].file, line=breaks[0].line, module=known.module, op=trace.events.name_of(row))
    if known.file is None:
        inner = region_calls(trace)
        inner = inner[inner["inner"] & (inner["outer"] == row)]
        return where_of(trace, int(inner["row"].iloc[0])) if len(inner) else known
    return known


def _plain(one: GraphBreak) -> Mapping[str, object]:
    return {"file": one.file, "line": one.line, "reason": one.reason, "hint": one.hint, "code": one.code}


RULE = Rule(code="COM003", name="graph-breaks", doc=__doc__, find=find, needs=(Has.OPS,))
