"""The copies between memories: what kind, how much, how fast, and how much of it was hidden behind kernels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union
from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.trace import Trace, measure

PARTS = {
    "direction": re.compile("([HDP]to[HDP])"),
    "source": re.compile(r"\(([^()]*?) -> "),
    "target": re.compile(r" -> ([^()]*?)\)"),
}
"""Column → what it is in a name such as `Memcpy HtoD (Pageable -> Device)`."""


@measure
def copies(trace: Trace) -> pd.DataFrame:
    """Every copy on a device, sorted by start.

    Columns of `gpu_work` (row, name, device, stream, start_ns, end_ns, dur_ns, launch, launch_start_ns, op, step,
    bytes with -1 for unknown), and: direction (HtoD, DtoH, DtoD, …, "" unknown), source and target (memory as the
    trace names it: Pageable, Pinned, Device, Host), pageable (either side is), bytes_per_s (NaN unknown), exposed_ns
    (its time during which no kernel ran on the device).
    """
    work = gpu_work(trace)
    table = work.drop(columns=["kind"])[(work["kind"] == "memcpy").to_numpy()].reset_index(drop=True)
    code = trace.events.name[table["row"].to_numpy()]
    for column, pattern in PARTS.items():
        found = np.full(len(trace.events.names), "", dtype=object)
        for each in distinct(code):
            match = pattern.search(trace.events.names[each])
            found[each] = match[1] if match else ""
        table[column] = pd.Series(found[code], dtype=object)
    table = table.astype({"name": str})
    table["pageable"] = (table["source"] == "Pageable") | (table["target"] == "Pageable")
    known = (table["bytes"] >= 0) & (table["dur_ns"] > 0)
    table["bytes_per_s"] = (table["bytes"] * 1e9 / table["dur_ns"].where(known)).astype(float)
    table["exposed_ns"] = _exposed(table, work)
    return table


def _exposed(table: pd.DataFrame, work: pd.DataFrame) -> pd.Series[int]:
    is_kernel, devices = (work["kind"] == "kernel").to_numpy(), work["device"].to_numpy()
    exposed = table["dur_ns"].copy()
    for device, group in table.groupby("device"):
        there = is_kernel & (devices == device)
        cover = union(work["start_ns"].to_numpy()[there], work["end_ns"].to_numpy()[there])
        order = group.index.to_numpy()
        parts = Intervals(group["start_ns"].to_numpy(), group["end_ns"].to_numpy(), np.arange(len(group)))
        exposed.loc[order] = group["dur_ns"].to_numpy() - covered_ns(parts, cover, len(group))
    return exposed


COPIES = Table(name="copies", of=copies)
