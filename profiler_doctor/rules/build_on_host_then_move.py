"""Tensors are made on the CPU only to be copied to the GPU.

What it finds
    A factory op that ran on the CPU (`zeros`, `ones`, `full`, `arange`, `randn`, `eye`, `tril` and their kin), directly
    followed, but for views, by the copy of as many elements to the GPU, in at least half of the steps. Where our own
    capture recorded which op was given which tensor: any copy of what such an op made and nothing has written to since.

Why it costs
    The CPU fills the memory, the link carries it, and from pageable memory the host waits for the copy: three costs for
    values that the GPU could have written by itself in a few microseconds.

What to do
    Make it where it is used: `torch.zeros(n, device=x.device)`. A constant belongs into a buffer that is made once.

When not to
    Real input comes from the host. Random numbers differ between devices: the same seed gives other values.

Source
    RULES.md, CPY004. Traces do not say which tensor a copy reads; without our own capture the neighbourhood, the number
    of elements and the repetition stand for it (`certain` is false then).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.factories import FACTORY, factory_before
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.measures.origins import UNKNOWN, makers
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.source import function_of, where_of
from profiler_doctor.analyzer.measures.window import Window, in_window, used_steps, window
from profiler_doctor.analyzer.trace import Bools, Ints, Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each place in the program that makes tensors on the wrong side."""
    span, moved = window(trace), copies(trace)
    if span is None:
        return
    moved = moved[in_window(trace, moved) & (moved["direction"] == "HtoD") & (moved["op"] >= 0)]
    if not len(moved):
        return
    moved = moved.assign(**_made(trace, moved["op"].to_numpy(np.int64)))
    moved = moved[(moved["made"] >= 0) & ~moved["made"].isin(_on_the_gpu(trace, moved["made"]))]
    for mine in _by_place(trace, moved):
        if mine["step"].nunique() >= max(limits["share_of_steps"] * len(used_steps(trace)), 1):
            yield _sighting(trace, mine, span)


def _sighting(trace: Trace, mine: pd.DataFrame, span: Window) -> Sighting:
    made, size = mine["made"].to_numpy(np.int64), int(mine["bytes"].clip(lower=0).sum())
    name = trace.events.name_of(int(made[0]))
    rows = [*mine["row"].tolist(), *made.tolist()]
    return Sighting(
        message=f"{len(mine) / span.per:.3g} times per {span.unit} {name} makes a tensor on the CPU, then copied "
        f"to the GPU{f', {size / span.per / 1e3:.3g} kB in all' if size else ''}.",
        where=where_of(trace, int(made[0])),
        evidence={
            "copies": len(mine),
            "bytes": size,
            "copy_ns": int(mine["dur_ns"].sum()),
            "made_ns": int(trace.events.dur_ns[made].sum()),
            "pageable": int(mine["pageable"].sum()),
            "certain": bool(mine["certain"].all()),
        },
        intervals_ns=places(mine),
        edit=Edit(keep=dict.fromkeys(rows, 0.0)),
        basis="neither the op on the CPU nor the copy; what the GPU then does instead is not counted",
    )


def _made(trace: Trace, copy_ops: Ints) -> dict[str, Ints | Bools]:
    """Columns: made (row of the factory op, -1 for none) and certain (told by the tensor, not by neighbourhood)."""
    told = makers(trace, copy_ops)
    factory = trace.events.matching_names(FACTORY)[trace.events.name[np.maximum(told, 0)]] & (told >= 0)
    made = np.where(told == UNKNOWN, factory_before(trace, copy_ops), np.where(factory, told, -1))
    return {"made": made, "certain": told != UNKNOWN}


def _on_the_gpu(trace: Trace, made: pd.Series[int]) -> Ints:
    """Those of the factory ops that launched work themselves."""
    mask = np.zeros(len(trace.events), np.bool_)
    mask[made[made >= 0]] = True
    return np.unique(outermost(trace, gpu_work(trace)["op"].to_numpy(np.int64), mask))


def _by_place(trace: Trace, moved: pd.DataFrame) -> list[pd.DataFrame]:
    """The copies of each function and factory."""
    rows = moved["made"].to_numpy(np.int64)
    told = zip(trace.events.names_at(rows), function_of(trace, rows), strict=True)
    return [group for _, group in moved.groupby(np.array([str(place) for place in told], dtype=object), sort=False)]


RULE = Rule(
    code="CPY004",
    name="build-on-host-then-move",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.LAUNCHES),
    thresholds={"share_of_steps": Threshold(0.5, "share of the steps", "what is made once is no habit")},
)
