"""From a kernel back to the line that asked for it: kernel, op, module, file and line."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.module_table import module_paths
from profiler_doctor.analyzer.measures.source import source_of
from profiler_doctor.analyzer.trace import Trace, measure

KEYS = ["kernel", "op", "module", "file", "line"]


@measure
def kernel_sources(trace: Trace) -> pd.DataFrame:
    """One row per kernel and place that launched it, the longest in total first.

    Columns: kernel, op (name of the innermost op that launched it, "" unknown), module (path of the nn.Module, ""
    unknown), file and line (of the user's own code; "" and -1 unknown: that needs Python stacks), count, time_ns (sum
    of the durations). Kernels of the backward pass stand at the place of their forward op.
    """
    work = gpu_work(trace)
    kernels = work.loc[work["kind"] == "kernel", ["name", "op", "dur_ns"]].rename(columns={"name": "kernel"})
    by_op = kernels.groupby(["kernel", "op"], sort=False, observed=True)["dur_ns"].agg(["size", "sum"])
    by_op = by_op.reset_index().astype({"kernel": str})
    asked, place = np.unique(by_op["op"].to_numpy(np.int64), return_inverse=True)
    known = asked >= 0
    places = source_of(trace, asked)
    names = np.array([trace.events.name_of(row) if row >= 0 else "" for row in asked.tolist()], dtype=object)
    paths = module_paths(trace)
    module = np.where(known, paths[np.where(known, asked, 0)], "") if len(paths) else names
    by_op["module"] = module[place]
    by_op["file"] = np.array([found[0] if found else "" for found in places], dtype=object)[place]
    by_op["line"] = np.array([found[1] if found else -1 for found in places], np.int64)[place]
    by_op["op"] = names[place]
    table = by_op.groupby(KEYS, sort=True).agg(count=("size", "sum"), time_ns=("sum", "sum"))
    return table.reset_index().sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


KERNEL_SOURCES = Table(name="kernel-sources", of=kernel_sources)
