"""The kernels by name: how often, how long."""

from __future__ import annotations

import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.trace import Trace, measure


@measure
def kernel_table(trace: Trace) -> pd.DataFrame:
    """One row per kernel name, the longest in total first: name, count, time_ns (sum), min_ns, median_ns, max_ns."""
    work = gpu_work(trace)
    by_name = work[work["kind"] == "kernel"].groupby("name", sort=False, observed=True)["dur_ns"]
    table = by_name.agg(count="count", time_ns="sum", min_ns="min", median_ns="median", max_ns="max").reset_index()
    table["name"] = table["name"].astype(str)
    return table.sort_values(["time_ns", "name"], ascending=[False, True], ignore_index=True)


KERNELS = Table(name="kernels", of=kernel_table)
