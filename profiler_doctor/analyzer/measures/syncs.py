"""The host calls that wait for a device, and the work that they waited for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import SYNCHRONIZE, host_calls
from profiler_doctor.analyzer.measures.nesting import last_above
from profiler_doctor.analyzer.trace import HOST_CALLS, Ints, Trace, measure

NO_STREAM = 0xFFFFFFFF
"""How some versions write stream -1: the call waits for the whole device."""


@measure
def syncs(trace: Trace) -> pd.DataFrame:
    """Every blocking call, in time order.

    Columns: row, name, thread, start_ns, end_ns, dur_ns, op (row, -1), step (index, -1), synchronize (its name says
    that it only waits; else it is a copy that blocks), stream (the one it waits for where the trace says so, else -1),
    waited_for (row of the work that let it return: of what was launched before the call, or before the event that it
    waits for was recorded, the last to end, if that was during the call; -1 none). Work without a recorded launch
    counts as launched before everything; a copy that blocks waits for its own bytes.
    """
    calls = host_calls(trace)
    kept = ["row", "name", "thread", "start_ns", "end_ns", "dur_ns", "op", "step"]
    blocking = calls[calls["kind"] == "blocking"]
    table = blocking[kept].reset_index(drop=True).astype({"name": str})
    table["synchronize"] = table["name"].str.contains(SYNCHRONIZE)
    told = _told(trace, blocking["correlation"].to_numpy(np.int64))
    table["stream"] = told["stream"].to_numpy(np.int64)
    recorded = told["recorded_ns"].to_numpy(np.int64)
    before = np.where(recorded >= 0, np.minimum(recorded, table["start_ns"]), table["start_ns"])
    table["waited_for"] = _waited_for(table, before.astype(np.int64), gpu_work(trace))
    return table


def _waited_for(calls: pd.DataFrame, before_ns: Ints, work: pd.DataFrame) -> Ints:
    found = np.full(len(calls), -1)
    own = work[work["launch"].isin(calls["row"])].sort_values("end_ns", kind="stable")
    own = own.drop_duplicates("launch", keep="last")
    theirs = own.set_index("launch")["row"].reindex(calls["row"], fill_value=-1).to_numpy(np.int64)
    for stream in calls["stream"].unique().tolist():
        asking = np.flatnonzero((calls["stream"] == stream) & (theirs < 0))
        there = work[work["stream"] == stream] if stream >= 0 else work
        found[asking] = _last_ended(calls.iloc[asking], before_ns[asking], there)
    return np.where(theirs >= 0, theirs, found)


def _last_ended(calls: pd.DataFrame, before_ns: Ints, work: pd.DataFrame) -> Ints:
    """Of the work launched before each call's limit the row of the last to end by the call's end, if within it."""
    order = np.argsort(work["end_ns"].to_numpy(np.int64), kind="stable")
    ends, rows = (work[name].to_numpy(np.int64)[order] for name in ("end_ns", "row"))
    linked, start = work["launch"].to_numpy()[order] >= 0, work["launch_start_ns"].to_numpy(np.int64)[order]
    launched = np.where(linked, start, np.iinfo(np.int64).min + 1)
    by = np.searchsorted(ends, calls["end_ns"].to_numpy(), side="right")
    place = last_above(-launched, by, -before_ns)
    known = np.maximum(place, 0)
    if not len(work):
        return place
    return np.where((place >= 0) & (ends[known] > calls["start_ns"].to_numpy()), rows[known], -1)


def _told(trace: Trace, correlations: Ints) -> pd.DataFrame:
    """What the driver says of each call (cuda_sync): stream, -1 unknown; recorded_ns, when its event was recorded."""
    events = trace.events
    rows = trace.rows("cuda_sync")
    keys = events.column("correlation").at(rows, 0)
    on, waits_on = events.column("stream").at(rows, -1), events.column("wait_on_stream").at(rows, -1)
    stream = np.where((on >= 0) & (on != NO_STREAM), on, np.where(waits_on != NO_STREAM, waits_on, -1))
    told = pd.DataFrame({"stream": stream, "recorded_ns": _recorded(trace, rows)}, index=keys)
    told = told[(told.index > 0) & ~told.index.duplicated()]
    return told.reindex(correlations, fill_value=-1)


def _recorded(trace: Trace, rows: Ints) -> Ints:
    """When the event that each cuda_sync row waits for was recorded on the host, -1 unknown."""
    wanted = trace.events.column("wait_on_cuda_event_record_corr_id").at(rows, -1)
    if not len(rows):
        return wanted
    calls = trace.rows(*HOST_CALLS)
    starts = pd.Series(trace.events.start_ns[calls], index=trace.events.column("correlation").at(calls, 0))
    starts = starts[(starts.index > 0) & ~starts.index.duplicated()]
    return starts.reindex(wanted, fill_value=-1).to_numpy(np.int64)


SYNCS = Table(name="syncs", of=syncs)
