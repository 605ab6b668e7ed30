"""When a device did nothing although work had long been handed to it: what held it was not recorded."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.intervals import gaps
from profiler_doctor.analyzer.trace import Trace, measure

COLUMNS = ("device", "start_ns", "end_ns", "dur_ns", "waiting")


@measure
def stalls(trace: Trace, gap_ns: int, wait_ns: int) -> pd.DataFrame:
    """Gaps of a device longer than `gap_ns` during which launched work waits for at least `wait_ns`.

    Columns: device, start_ns, end_ns, dur_ns (the gap less the time before its first waiting launch), waiting (pieces
    of work that had been launched and waited so long). A gap in which nothing waits is not listed.
    """
    work = gpu_work(trace)
    found = [
        stall
        for device, group in work.groupby("device", sort=True)
        for stall in _of_device(int(str(device)), group, (gap_ns, wait_ns))
    ]
    return pd.DataFrame(found, columns=list(COLUMNS)).astype("int64")


def _of_device(device: int, work: pd.DataFrame, limits: tuple[int, int]) -> list[tuple[int, ...]]:
    gap_ns, wait_ns = limits
    linked = work[work["launch"] >= 0]
    launched, started = linked["launch_start_ns"].to_numpy(), linked["start_ns"].to_numpy()
    holes = gaps(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    first_launch = np.minimum.accumulate(launched[::-1])[::-1]  # of each piece of work and all that start after it
    first = np.searchsorted(started, holes.ends)
    after = np.searchsorted(first_launch, holes.ends - wait_ns, side="right")
    length = holes.ends - holes.starts
    chosen = np.flatnonzero((length > gap_ns) & (length >= wait_ns) & (after > first))
    found: list[tuple[int, ...]] = []
    for hole in chosen.tolist():
        start, end = int(holes.starts[hole]), int(holes.ends[hole])
        since = max(int(first_launch[first[hole]]), start)
        waiting = int(np.count_nonzero(launched[first[hole] : after[hole]] <= end - wait_ns))
        found.append((device, start, end, end - since, waiting))
    return found
