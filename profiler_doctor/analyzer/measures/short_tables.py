"""The top of three tables as the document shows them: waits by name and op, memory by device, ops under their roof."""

from __future__ import annotations

import numpy as np

from profiler_doctor.analyzer.measures.memory import memory_peaks
from profiler_doctor.analyzer.measures.roofline import peaks_of, roofline
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.tables import MemoryRow, RooflineRow, SyncRow
from profiler_doctor.analyzer.trace import Trace


def sync_rows(trace: Trace, top: int) -> tuple[tuple[SyncRow, ...], int]:
    """The `top` pairs of a blocking call's name and the op around it that wait longest, and how many there are."""
    table = syncs(trace)
    rows = table["op"].to_numpy(np.int64)
    named = table.assign(around=[trace.events.name_of(row) if row >= 0 else "" for row in rows.tolist()])
    found = named.groupby(["name", "around"], sort=True)["dur_ns"].agg(["count", "sum", "max"]).reset_index()
    longest = found.sort_values("sum", ascending=False, kind="stable").head(top)
    columns = (longest[name].tolist() for name in ("name", "around", "count", "sum", "max"))
    return tuple(
        SyncRow(name=name, op=op, count=count, time_ns=time, longest_ns=most)
        for name, op, count, time, most in zip(*columns, strict=True)
    ), len(found)


def memory_rows(trace: Trace, top: int) -> tuple[tuple[MemoryRow, ...], int]:
    """The `top` devices that held most, and how many there are."""
    table = memory_peaks(trace)
    names = ["device", "allocations", "allocated_bytes", "peak_bytes", "peak_op", "peak_reserved_bytes"]
    most = table.sort_values("peak_bytes", ascending=False, kind="stable").head(top)
    return tuple(
        MemoryRow(
            device=str(device),
            allocations=int(given),
            allocated_bytes=int(size),
            peak_bytes=int(peak),
            peak_op=str(op),
            reserved_bytes=int(reserved) if reserved > 0 else None,
        )
        for device, given, size, peak, op, reserved in zip(*(most[name].tolist() for name in names), strict=True)
    ), len(table)


def roofline_rows(trace: Trace, top: int) -> tuple[tuple[RooflineRow, ...], int]:
    """The `top` ops that take longest of those whose shapes tell their cost, and how many there are."""
    table = roofline(trace)
    table = table[table["time_ns"] > 0]
    names = ["op", "kind", "type", "device", "calls", "time_ns", "flops", "bytes", "bound", "roof_ns"]
    columns = (table.head(top)[name].tolist() for name in names)
    return tuple(_roofline_row(trace, row) for row in zip(*columns, strict=True)), len(table)


def _roofline_row(trace: Trace, row: tuple[object, ...]) -> RooflineRow:
    op, kind, type_, device, calls, time_ns, flops, size, bound, roof_ns = row
    peak_flops, peak_bytes = peaks_of(trace, int(str(device)), str(kind), str(type_))
    known = isinstance(roof_ns, float) and np.isfinite(roof_ns)
    return RooflineRow(
        op=str(op),
        kind=str(kind),
        type=str(type_),
        device=int(str(device)),
        calls=int(str(calls)),
        time_ns=int(str(time_ns)),
        flops=int(str(flops)),
        bytes=int(str(size)),
        bound=str(bound),
        roof_ns=round(float(str(roof_ns))) if known else None,
        peak_flops_per_s=peak_flops if known else None,
        peak_bytes_per_s=peak_bytes if known else None,
    )
