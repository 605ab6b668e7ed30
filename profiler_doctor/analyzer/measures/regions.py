"""Calls of compiled code, one by one: which run inside another one, and how much of a call is not its graphs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.compiles import REGION, numbered
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union
from profiler_doctor.analyzer.measures.ops import named, nearest_above, ops, outermost
from profiler_doctor.analyzer.trace import Bools, Trace, measure

GRAPH = named(r"^## Call CompiledFxGraph", r"^CompiledFunction(Backward)?$")
"""Annotations around the run of a graph."""
AROUND_GRAPHS = named(
    r"^TorchDynamo Cache Lookup", r"^Pregraph bytecode$", r"^AOTDispatcher Runtime Wrapper",
    r"^aten::(?:item|_local_scalar_dense|is_nonzero)$",
)  # fmt: skip
"""What is paid anew for each graph, and the reading of values that often stands between two of them."""


@measure
def region_calls(trace: Trace) -> pd.DataFrame:
    """Every call of a compiled region, in the order of threads and time.

    Columns: row, compile_id, frame, turn (as in `compiles`), thread (code), start_ns, end_ns, dur_ns, step (index,
    -1), inner (whether it runs inside another region, which is so after a graph break), outer (row of the outermost
    region around it or its own).
    """
    table = ops(trace)
    rows = table["row"].to_numpy(np.int64)
    chosen = _is_region(trace)
    found = table.loc[chosen[rows], ["row", "name", "thread", "start_ns", "end_ns", "dur_ns", "step"]]
    found = found.astype({"row": "int64", "name": str}).reset_index(drop=True)
    mine = found["row"].to_numpy(np.int64)
    matches = [REGION.match(name) for name in found["name"]]
    found["compile_id"] = [match["id"] if match else "" for match in matches]
    found = numbered(found.drop(columns="name"))
    return found.assign(inner=nearest_above(trace, mine, chosen) >= 0, outer=outermost(trace, mine, chosen))


@measure
def broken_calls(trace: Trace) -> pd.DataFrame:
    """The calls of compiled code that run as several graphs, one row for each outermost region.

    Columns: row, frame, start_ns, end_ns, dur_ns, step, graphs (regions in all), between_ns (its time outside of the
    graphs' and other ops' own work), lost_ns (the part of it that one graph alone would not need).
    """
    calls = region_calls(trace)
    graphs = calls.groupby("outer").size()
    outer = calls[calls["row"].isin(graphs.index[graphs > 1])].reset_index(drop=True)
    parts = Intervals(outer["start_ns"].to_numpy(), outer["end_ns"].to_numpy(), np.arange(len(outer)))
    between = outer["dur_ns"].to_numpy() - _worked_ns(trace, outer, parts)
    count = graphs.reindex(outer["row"]).to_numpy()
    found = outer[["row", "frame", "start_ns", "end_ns", "dur_ns", "step"]]
    return found.assign(graphs=count, between_ns=between, lost_ns=between * (count - 1) // np.maximum(count, 1))


def _worked_ns(trace: Trace, outer: pd.DataFrame, parts: Intervals) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each outermost region, its own thread's time in graphs and in ops that are part of the model's work."""
    found = np.zeros(len(outer), np.int64)
    if not len(outer):
        return found
    table = ops(trace)
    rows = table["row"].to_numpy(np.int64)
    name = trace.events.name[rows]
    graph = trace.events.matching_names(GRAPH)[name]
    around = trace.events.matching_names(AROUND_GRAPHS)[name] | _is_region(trace)[rows]
    work = table[graph | (table["is_op"].to_numpy() & ~around)]
    for thread in outer["thread"].unique():
        own = work[work["thread"] == thread]
        mine = (outer["thread"] == thread).to_numpy()
        cover = union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        there = Intervals(parts.starts[mine], parts.ends[mine], np.arange(int(mine.sum())))
        found[mine] = covered_ns(there, cover, int(mine.sum()))
    return found


@measure
def _is_region(trace: Trace) -> Bools:
    """For every event row: whether it is the call of a compiled region."""
    rows = trace.rows_named(REGION.match, ("cpu_op", "user_annotation"))
    if not len(rows):
        return np.broadcast_to(np.False_, len(trace.events))  # takes no memory
    mask = np.zeros(len(trace.events), np.bool_)
    mask[rows] = True
    return mask
