"""The host calls that wait for a device, and the work that they waited for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import SYNCHRONIZE, host_calls
from profiler_doctor.analyzer.trace import Ints, Trace, measure


@measure
def syncs(trace: Trace) -> pd.DataFrame:
    """Every blocking call, in time order.

    Columns: row, name, thread, start_ns, end_ns, dur_ns, op (row, -1), step (index, -1), synchronize (its name says
    that it only waits; else it is a copy that blocks), waited_for (row of the last work that was launched before the
    call and ended during it, -1 if none did).
    """
    calls = host_calls(trace)
    kept = ["row", "name", "thread", "start_ns", "end_ns", "dur_ns", "op", "step"]
    table = calls.loc[calls["kind"] == "blocking", kept].reset_index(drop=True)
    table["synchronize"] = table["name"].astype(str).str.contains(SYNCHRONIZE)
    table["waited_for"] = _waited_for(table, gpu_work(trace))
    return table


def _waited_for(calls: pd.DataFrame, work: pd.DataFrame) -> Ints:
    own = work.set_index("launch")["end_ns"].groupby(level=0).max()  # a blocking copy waits for its own work
    work = work[(work["launch"] >= 0)].sort_values("end_ns", kind="stable")
    if not len(work) or not len(calls):
        return np.full(len(calls), -1)
    place = np.searchsorted(work["end_ns"].to_numpy(), calls["end_ns"].to_numpy(), side="right") - 1
    place = np.maximum(place, 0)
    ended = work["end_ns"].to_numpy()[place]
    begun = work["launch_start_ns"].to_numpy()[place]
    during = (ended > calls["start_ns"].to_numpy()) & (ended <= calls["end_ns"].to_numpy())
    before = (begun < calls["start_ns"].to_numpy()) | calls["row"].isin(own.index).to_numpy()
    return np.where(during & before, work["row"].to_numpy()[place], -1)
