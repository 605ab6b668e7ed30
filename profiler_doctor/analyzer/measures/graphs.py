"""The launches of captured graphs, and what each of them put on the device."""

from __future__ import annotations

import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.trace import Trace, measure


@measure
def graph_launches(trace: Trace) -> pd.DataFrame:
    """Every launch of a graph, in time order.

    Columns: row, name, thread (code), start_ns, end_ns, dur_ns, op (row, -1), step (-1), kernels, memcpys and memsets
    (pieces of work of each kind that it launched and that were recorded), work_ns (their durations added up),
    work_start_ns and work_end_ns (from the first one's start to the last one's end; -1 where none was recorded: then
    the profiler did not look into the graph).
    """
    calls = host_calls(trace)
    kept = ["row", "name", "thread", "start_ns", "end_ns", "dur_ns", "op", "step"]
    table = calls.loc[calls["kind"] == "graph_launch", kept].astype({"name": str}).set_index("row")
    work = gpu_work(trace)[["launch", "kind", "start_ns", "end_ns", "dur_ns"]]
    work = work[work["launch"].isin(table.index)]
    for kind in ("kernel", "memcpy", "memset"):
        count = work[work["kind"] == kind].groupby("launch").size()
        table[f"{kind}s"] = count.reindex(table.index, fill_value=0)
    by_launch = work.groupby("launch")
    table["work_ns"] = by_launch["dur_ns"].sum().reindex(table.index, fill_value=0)
    table["work_start_ns"] = by_launch["start_ns"].min().reindex(table.index, fill_value=-1)
    table["work_end_ns"] = by_launch["end_ns"].max().reindex(table.index, fill_value=-1)
    return table.reset_index()


@measure
def graphs(trace: Trace) -> pd.DataFrame:
    """One row per size of graph: launches that put the same number of pieces on the device.

    Columns: kernels, memcpys, memsets, launches, launch_ns (host time of the calls), work_ns (of all their pieces).
    """
    grouped = graph_launches(trace).groupby(["kernels", "memcpys", "memsets"], sort=True)
    found = grouped.agg(launches=("row", "size"), launch_ns=("dur_ns", "sum"), work_ns=("work_ns", "sum"))
    return found.reset_index().sort_values("work_ns", ascending=False, kind="stable", ignore_index=True)


GRAPH_LAUNCHES = Table(name="graph-launches", of=graph_launches)
GRAPHS = Table(name="graphs", of=graphs)
