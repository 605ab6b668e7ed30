"""How much work waits at a device's door: launched by the host, not yet begun."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.trace import Trace, measure


@measure
def queue_depth(trace: Trace) -> pd.DataFrame:
    """One row per change of a device's queue, in time order.

    Columns: device, time_ns, depth (pieces of work that have been launched and have not begun, from this time until
    the device's next row). A piece waits from the start of its launch call to its own start; one whose launch is not
    in the trace is not seen to wait, and neither is one that starts before its launch (clocks that differ). A graph's
    kernels wait together.
    """
    work = _waiting(trace)
    device = np.concatenate((work["device"].to_numpy(), work["device"].to_numpy()))
    times = np.concatenate((work["launch_start_ns"].to_numpy(), work["start_ns"].to_numpy()))
    order = np.lexsort((times, device))
    device, times = device[order], times[order]
    depth = np.cumsum(np.repeat((1, -1), len(work))[order])  # a device ends at 0, so the next one begins there
    last = np.append((device[1:] != device[:-1]) | (times[1:] != times[:-1]), np.ones(min(len(work), 1), np.bool_))
    device, times, depth = device[last], times[last], depth[last]
    changed = np.diff(depth, prepend=0) != 0
    return pd.DataFrame({"device": device[changed], "time_ns": times[changed], "depth": depth[changed]})


@measure
def queues(trace: Trace) -> pd.DataFrame:
    """One row per device: how deep its queue was.

    Columns: device, launched (pieces of work with their launch in the trace), max_depth, mean_depth (weighted by time
    over the span; NaN where that is 0), waiting_ns (the pieces' waiting times added up), empty_ns (nothing waited),
    span_ns (from the first launch to the last start).
    """
    work = _linked(trace)
    depth = queue_depth(trace)
    by_device = work.groupby("device", sort=True)
    found = pd.DataFrame({"launched": by_device.size(), "max_depth": depth.groupby("device")["depth"].max()})
    found["max_depth"] = found["max_depth"].fillna(0).astype("int64")
    span = by_device["start_ns"].max() - by_device["launch_start_ns"].min()
    waits = (work["start_ns"] - work["launch_start_ns"]).clip(lower=0)
    found["span_ns"] = span.clip(lower=0)
    found["waiting_ns"] = waits.groupby(work["device"]).sum()
    found["mean_depth"] = found["waiting_ns"] / found["span_ns"].where(found["span_ns"] > 0)
    until = depth["time_ns"].shift(-1).where(depth["device"] == depth["device"].shift(-1), depth["time_ns"])
    lasting = (until - depth["time_ns"]).where(depth["depth"] > 0, 0).astype("int64")
    found["empty_ns"] = found["span_ns"] - lasting.groupby(depth["device"]).sum().reindex(found.index, fill_value=0)
    columns = ["launched", "max_depth", "mean_depth", "waiting_ns", "empty_ns", "span_ns"]
    return found[columns].rename_axis("device").reset_index()


def _linked(trace: Trace) -> pd.DataFrame:
    work = gpu_work(trace)
    return work[work["launch"] >= 0]


def _waiting(trace: Trace) -> pd.DataFrame:
    work = _linked(trace)
    return work[work["start_ns"] > work["launch_start_ns"]]


QUEUE_DEPTH = Table(name="queue-depth", of=queue_depth)
QUEUES = Table(name="queues", of=queues)
