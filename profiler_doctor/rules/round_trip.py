"""Data leaves the GPU and comes back in the same step.

What it finds
    A copy from the GPU to the host, and later in the same step a copy of as many bytes to the GPU, at the same two
    places of the program in three or more steps. Single numbers and copies under 256 bytes are not meant.

Why it costs
    The read-back waits for the GPU, the work in between runs on one CPU core while the GPU stands still, and the way
    back is a second copy.

What to do
    Do on the GPU what is done between the two: sorting, non-maximum suppression, masks and sampling all have ops there.
    What only Python can do may work on the step before's data.

When not to
    Two copies may be of one size by chance. Without the tensors' identities, which our own capture alone records, that
    cannot be told (`certain` is false then); hence the three steps. With them, copies of other data are left out.

Source
    RULES.md, CPY005. At stake are both copies with their waits; the host work between them stays.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.modules import module_of
from profiler_doctor.analyzer.measures.ops import inside_named
from profiler_doctor.analyzer.measures.origins import comes_of
from profiler_doctor.analyzer.measures.source import function_of, where_of
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.measures.wait_causes import SCALAR
from profiler_doctor.analyzer.measures.window import Window, in_window, window
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

KEPT = ["step", "bytes", "launch_start_ns", "row", "op", "launch", "start_ns", "end_ns"]


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each pair of places."""
    span, moved = window(trace), copies(trace)
    if span is None or span.steps < limits["steps"]:
        return
    moved = moved[in_window(trace, moved) & (moved["bytes"] >= limits["bytes"])]
    if not {"DtoH", "HtoD"} <= set(moved["direction"]):
        return
    moved = moved[~inside_named(trace, moved["op"].to_numpy(np.int64), SCALAR)]
    pairs = _related(trace, _pairs(moved))
    for trips in _by_places(trace, pairs):
        if trips["step"].nunique() >= limits["steps"]:
            yield _sighting(trace, trips, span)


def _sighting(trace: Trace, trips: pd.DataFrame, span: Window) -> Sighting:
    place, size = where_of(trace, int(trips["op_back"].iloc[0])), int(trips["bytes"].iloc[0])
    rows = [*trips["row_back"].tolist(), *trips["row"].tolist()]
    return Sighting(
        message=f"{len(trips) / span.per:.3g} times per {span.unit} {size / 1e3:.3g} kB leave the GPU and as many come "
        "back.",
        where=place if place.op else Where(op="Memcpy DtoH"),
        evidence={
            "trips": len(trips),
            "bytes": size,
            "steps": int(trips["step"].nunique()),
            "certain": bool(trips["certain"].all()),
            "between_ns": int((trips["start_ns"] - trips["end_ns_back"]).median()),
        },
        intervals_ns=tuple(zip(trips["start_ns_back"].tolist(), trips["end_ns"].tolist(), strict=True)),
        edit=Edit(keep=dict.fromkeys(rows, 0.0), free=_waits(trace, trips)),
        basis="neither copy, and no wait for them",
    )


def _pairs(moved: pd.DataFrame) -> pd.DataFrame:
    """Each copy to the GPU with the last one of as many bytes that left it earlier in the step, if there is one."""
    in_order = moved.sort_values("launch_start_ns", kind="stable")
    there, back = in_order[in_order["direction"] == "HtoD"][KEPT], in_order[in_order["direction"] == "DtoH"][KEPT]
    back = back.rename(columns={name: f"{name}_back" for name in KEPT[3:]})
    pairs = pd.merge_asof(
        there, back, on="launch_start_ns", by=["step", "bytes"], direction="backward", allow_exact_matches=False
    )
    pairs = pairs[pairs["row_back"].notna() & (pairs["step"] >= 0)]
    pairs = pairs.astype(dict.fromkeys(pairs.columns, "int64"))
    return pairs[pairs["end_ns_back"] <= pairs["start_ns"]].drop_duplicates("row_back")


def _related(trace: Trace, pairs: pd.DataFrame) -> pd.DataFrame:
    """Without those whose second copy is known to take other data; column `certain` says which do take the same."""
    told = comes_of(trace, pairs["op_back"].tolist(), pairs["op"].tolist())
    kept = np.array([one is not False for one in told], np.bool_)
    return pairs.assign(certain=np.array([one is True for one in told], np.bool_))[kept]


def _by_places(trace: Trace, pairs: pd.DataFrame) -> list[pd.DataFrame]:
    """The pairs of equal size between the same two functions, modules and ops."""
    told = [_places(trace, pairs[name]) for name in ("op_back", "op")]
    sizes = pairs["bytes"].astype(str).tolist()
    names = np.array([" ".join(parts) for parts in zip(*told, sizes, strict=True)], dtype=object)
    return [group for _, group in pairs.groupby(names, sort=False)]


def _places(trace: Trace, ops: pd.Series[int]) -> list[str]:
    rows = np.asarray(ops, dtype=np.int64)
    names = [trace.events.name_of(row) if row >= 0 else "" for row in rows.tolist()]
    return [str(place) for place in zip(function_of(trace, rows), module_of(trace, rows), names, strict=True)]


def _waits(trace: Trace, trips: pd.DataFrame) -> tuple[int, ...]:
    """The copy calls, and the synchronizations inside the copies' ops."""
    table = syncs(trace)
    ops = [*trips["op"].tolist(), *trips["op_back"].tolist()]
    same_op = (table["op"] >= 0) & table["op"].isin(ops)
    calls = {*trips["launch"].tolist(), *trips["launch_back"].tolist()}
    return tuple(sorted(calls | set(table.loc[same_op, "row"].tolist())))


RULE = Rule(
    code="CPY005",
    name="round-trip",
    doc=__doc__,
    find=find,
    needs=(Has.LAUNCHES, Has.STEPS),
    thresholds={
        "steps": Threshold(3, "steps", "equal sizes may be chance, the same two places again and again are not"),
        "bytes": Threshold(256, "bytes", "numbers and small shapes are often equal in size by chance"),
    },
)
