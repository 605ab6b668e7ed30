"""The program waits for the GPU to read a single number.

What it finds
    Blocking calls under `aten::item`, `aten::_local_scalar_dense` or `aten::is_nonzero`: what `.item()`, `float(t)`,
    `if tensor:` and printing a loss become. On the CPU nothing waits, and only reads so many that they fill a tenth of
    the step are named.

Why it costs
    To read a number the host waits until the GPU has done everything before it. The GPU's queue is then empty, and
    stays so until the host has launched more: both sides stand still in turn.

What to do
    Keep the number on the device: add up losses with `loss.detach()`, branch with `torch.where`, read once every N
    steps for the log.

When not to
    A read at the end of a step that is bound by the GPU costs next to nothing: the host would wait at the next one. A
    number that decides what to launch next has to be read. Numbers that an op reads to know how large its own result
    is are SYN003's.

Source
    RULES.md, SYN001. CUDA shows an asynchronous copy and a stream synchronization, ROCm a blocking copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.ops import ops, outermost_named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.wait_causes import SCALAR
from profiler_doctor.analyzer.measures.window import Window, window
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules._waits import by_place, waits


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that reads."""
    span = window(trace)
    if span is None:
        return
    if Has.CPU_ONLY in trace.has:
        yield from _on_the_cpu(trace, span, limits)
        return
    for reads in by_place(trace, waits(trace, span, "scalar", limits["waited_share"])):
        waited, count = int(reads["dur_ns"].sum()), reads["under"].nunique()
        yield Sighting(
            message=f"{count / span.per:.3g} scalar reads per {span.unit} make the host wait for the GPU, "
            f"{waited / span.per / 1e6:.3g} ms in all.",
            where=where_of(trace, int(reads["under"].iloc[0])),
            evidence={"reads": count, "waited_ns": waited, "steps": span.steps},
            intervals_ns=places(reads),
            edit=Edit(free=tuple(reads["row"].tolist())),
            basis="the host not waiting for the reads",
        )


def _on_the_cpu(trace: Trace, span: Window, limits: Limits) -> Iterator[Sighting]:
    table = ops(trace)
    inside = (table["thread"] == span.thread) & (table["start_ns"] >= span.start_ns) & (table["end_ns"] <= span.end_ns)
    table = table[inside & table["name"].map(SCALAR).notna()]
    table = table[outermost_named(trace, table["row"].to_numpy(np.int64), SCALAR) == table["row"]]
    taken = int(table["dur_ns"].sum())
    if len(table) < limits["cpu_reads"] * span.per or taken < limits["cpu_share"] * span.span_ns:
        return
    for reads in by_place(trace, table.assign(under=table["row"])):
        yield Sighting(
            message=f"{len(reads) / span.per:.3g} scalar reads per {span.unit} take "
            f"{reads['dur_ns'].sum() / span.span_ns:.1%} of it.",
            where=where_of(trace, int(reads["row"].iloc[0])),
            evidence={"reads": len(reads), "time_ns": int(reads["dur_ns"].sum()), "steps": span.steps},
            intervals_ns=places(reads),
            edit=Edit(keep=dict.fromkeys(reads["row"].tolist(), 0.0)),
        )


RULE = Rule(
    code="SYN001",
    name="scalar-read",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "waited_share": Threshold(0.005, "share of the window", "less is within the error of any estimate"),
        "cpu_reads": Threshold(16, "reads per step", "a few reads of a log line are no loop over elements"),
        "cpu_share": Threshold(0.10, "share of the step", "on the CPU a read only costs its own dispatch"),
    },
)
