"""Every step waits until its results have reached the host.

What it finds
    Copies from the GPU to the host, at least one per step, for which the host stands still for more than 100 µs: the
    copy call and the synchronization after it, under `.cpu()`, `.to("cpu")`, `.numpy()` or `copy_`.

Why it costs
    The copy waits for everything that was launched before it, and the host waits for the copy. Until it goes on,
    nothing is queued, so the GPU has nothing to do afterwards.

What to do
    Copy into a pinned buffer with `non_blocking=True`, record an event, and wait for the event one step later: the host
    then runs a step ahead. Results that are only logged can be added up on the device.

When not to
    A result that decides what to launch next has to arrive first, and one that the caller waits for can only be
    deferred, not avoided: a request that must be answered is not answered sooner. Where the GPU is always busy the host
    would wait somewhere else.

Source
    RULES.md, SYN004. CUDA shows a copy call, often with a synchronization after it, ROCm one blocking copy.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import Window, linked_work, window
from profiler_doctor.analyzer.trace import Bools, Trace
from profiler_doctor.rules._waits import by_place, waits

DEFER = " Nothing is launched after them in the step: fetch the result one step later."


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that waits for its results."""
    span = window(trace)
    if span is None:
        return
    for group in by_place(trace, waits(trace, span, "readback", limits["waited_share"])):
        each = group.groupby("under")["dur_ns"].sum()
        slow = each[each > limits["blocked_us"] * 1000]
        if len(slow) >= span.per:
            yield _sighting(trace, group[group["under"].isin(slow.index)], span)


def _sighting(trace: Trace, group: pd.DataFrame, span: Window) -> Sighting:
    where, waited = where_of(trace, int(group["under"].iloc[0])), int(group["dur_ns"].sum())
    moved = copies(trace)
    moved = moved[(moved["direction"] == "DtoH") & moved["op"].isin(group["op"])]
    count, last = group["under"].nunique(), _last_of_its_step(trace, group)
    return Sighting(
        message=f"{count / span.per:.3g} copies to the host per {span.unit} make the program wait, "
        f"{waited / span.per / 1e6:.3g} ms in all." + (DEFER if last.all() else ""),
        where=where,
        evidence={
            "readbacks": count,
            "waited_ns": waited,
            "bytes": int(moved["bytes"].clip(lower=0).sum()),
            "copy_ns": int(moved["dur_ns"].sum()),
            "last_of_its_step": int(group.loc[last, "under"].nunique()),
            "steps": span.steps,
        },
        intervals_ns=places(group),
        edit=Edit(free=tuple(group["row"].tolist())),
        basis="the host not waiting for its results in the same step",
    )


def _last_of_its_step(trace: Trace, group: pd.DataFrame) -> Bools:
    """Whether nothing is launched in the step (the window where none are marked) after each wait has begun."""
    work = linked_work(trace)
    last = group["step"].map(work.groupby("step")["launch_start_ns"].max())
    after: Bools = (group["start_ns"] >= last.fillna(0)).to_numpy(np.bool_)
    return after


RULE = Rule(
    code="SYN004",
    name="per-step-readback",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.KERNELS, Has.LAUNCHES),
    thresholds={
        "blocked_us": Threshold(100, "µs per copy", "a copy of a few kilobytes alone takes about 10 µs (RULES.md)"),
        "waited_share": Threshold(0.005, "share of the window", "less is within the error of any estimate"),
    },
)
