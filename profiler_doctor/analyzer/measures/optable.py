"""The ops by name: how often, how long, how much of it their own, and the device time they launched."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.ops import is_op, ops
from profiler_doctor.analyzer.trace import Codes, Ints, Trace, measure


@measure
def op_table(trace: Trace) -> pd.DataFrame:
    """One row per name of a cpu_op, the largest self time first.

    Columns: name, count, time_ns (sum of durations), self_ns (less what ops and annotations inside it took), gpu_ns
    (sum of the durations of the work launched directly from it, not from ops inside it).
    """
    table, work = ops(trace), gpu_work(trace)
    mine, launching = table["is_op"].to_numpy(), work["op"].to_numpy() >= 0
    name = trace.events.name[table["row"].to_numpy()[mine]]
    launching[launching] = is_op(trace)[work["op"].to_numpy()[launching]]
    name_of_work = trace.events.name[work["op"].to_numpy()[launching]]
    every = len(trace.events.names)
    count = np.bincount(name, minlength=every)
    sums = {
        "count": count,
        "time_ns": _summed(name, table["dur_ns"].to_numpy()[mine], every),
        "self_ns": _summed(name, table["self_ns"].to_numpy()[mine], every),
        "gpu_ns": _summed(name_of_work, work["dur_ns"].to_numpy()[launching], every),
    }
    there = np.flatnonzero(count)
    names = pd.array([trace.events.names[code] for code in there.tolist()], dtype="str")
    found = pd.DataFrame({"name": names, **{column: values[there] for column, values in sums.items()}})
    return found.sort_values(["self_ns", "name"], ascending=[False, True], ignore_index=True)


def _summed(codes: Codes, values: Ints, count: int) -> Ints:
    """For each code below `count` the exact sum of its values."""
    found = np.zeros(count, np.int64)
    np.add.at(found, codes, values)
    return found


OPS = Table(name="ops", of=op_table)
