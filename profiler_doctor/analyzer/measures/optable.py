"""The ops by name: how often, how long, how much of it their own, and the device time they launched."""

from __future__ import annotations

import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.trace import Trace, measure


@measure
def op_table(trace: Trace) -> pd.DataFrame:
    """One row per name of a cpu_op, the largest self time first.

    Columns: name, count, time_ns (sum of durations), self_ns (less what ops and annotations inside it took), gpu_ns
    (sum of the durations of the work launched directly from it, not from ops inside it).
    """
    table = ops(trace)
    table = table[table["is_op"]]
    work = gpu_work(trace)
    gpu = work[work["op"] >= 0].groupby("op")["dur_ns"].sum()
    table = table.assign(gpu_ns=table["row"].map(gpu).fillna(0).astype("int64"))
    by_name = table.groupby("name", sort=False, observed=True)
    found = by_name.agg(
        count=("row", "count"), time_ns=("dur_ns", "sum"), self_ns=("self_ns", "sum"), gpu_ns=("gpu_ns", "sum")
    )
    found = found.reset_index().astype({"name": str})
    return found.sort_values(["self_ns", "name"], ascending=[False, True], ignore_index=True)


OPS = Table(name="ops", of=op_table)
