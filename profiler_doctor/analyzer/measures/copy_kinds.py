"""The copies of each kind together: how much, how fast, and how much of their time no kernel hid."""

from __future__ import annotations

import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.trace import Trace, measure


@measure
def copy_kinds(trace: Trace) -> pd.DataFrame:
    """One row per kind of copy, the longest in total first.

    Columns: name (as the trace has it), direction (HtoD, DtoH, …, "" unknown), count, bytes (sum of those known),
    time_ns (sum), bytes_per_s (of the copies whose bytes and time are known, over their time; NaN where none is),
    median_bytes_per_s (NaN likewise), overlapped_ns (time during which a kernel ran on the same device), exposed_ns
    (the rest).
    """
    table = copies(trace)
    known = table["bytes_per_s"].notna()
    table = table.assign(
        size=table["bytes"].clip(lower=0),
        moved=table["bytes"].where(known, 0),
        moving_ns=table["dur_ns"].where(known, 0),
        overlapped_ns=table["dur_ns"] - table["exposed_ns"],
    )
    found = table.groupby(["name", "direction"], sort=True).agg(
        count=("row", "size"),
        bytes=("size", "sum"),
        time_ns=("dur_ns", "sum"),
        moved=("moved", "sum"),
        moving_ns=("moving_ns", "sum"),
        median_bytes_per_s=("bytes_per_s", "median"),
        overlapped_ns=("overlapped_ns", "sum"),
        exposed_ns=("exposed_ns", "sum"),
    )
    found["bytes_per_s"] = found["moved"] * 1e9 / found["moving_ns"].where(found["moving_ns"] > 0)
    columns = ["count", "bytes", "time_ns", "bytes_per_s", "median_bytes_per_s", "overlapped_ns", "exposed_ns"]
    return found[columns].reset_index().sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


COPY_KINDS = Table(name="copy-kinds", of=copy_kinds)
