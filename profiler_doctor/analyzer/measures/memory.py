"""What the allocators gave out and took back: each event, the peak of each device, and what each step asks for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.ops import enclosing_op
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.trace import Ints, Trace, measure

MARK = "[memory]"
DEVICES = {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 14: "meta", 15: "hpu", 19: "mtia"}
"""c10::DeviceType by its number. Others are shown as `device-type-N`."""


@measure
def memory(trace: Trace) -> pd.DataFrame:
    """Every allocation and release that the profiler saw, in time order.

    Columns: row, device ("cpu", "cuda:0", "hip:0", …), time_ns, bytes (negative: given back), allocated_bytes (what the
    device's allocator has given out after it, -1 where the trace does not say), reserved_bytes (what it holds from the
    driver, -1 unknown; 0 on a CPU), change_bytes (everything since the recording began, added up per device), op (row
    of the innermost op at that time, -1), step (-1).
    """
    events = trace.events
    rows = _rows(trace)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    times = events.start_ns[rows]
    column = {name: events.column(name).at(rows, -1) for name in ("Device Type", "Device Id")}
    table = pd.DataFrame(
        {
            "row": rows,
            "device": _named(column["Device Type"], column["Device Id"]),
            "time_ns": times,
            "bytes": events.column("Bytes").at(rows, 0),
            "allocated_bytes": events.column("Total Allocated").at(rows, -1),
            "reserved_bytes": events.column("Total Reserved").at(rows, -1),
            "op": enclosing_op(trace, events.thread[rows], times),
            "step": step_at(trace, times),
        }
    )
    table.insert(6, "change_bytes", table.groupby("device", sort=False)["bytes"].cumsum())
    return table


@measure
def memory_peaks(trace: Trace) -> pd.DataFrame:
    """One row per device: what was allocated while it was recorded, and when it held most.

    Columns: device, allocations, releases, allocated_bytes (sum of the allocations), released_bytes, peak_bytes (most
    given out at once; where the trace has no totals, most beyond what was there when the recording began),
    peak_time_ns, peak_op (name of the op that reached it, "" unknown), peak_reserved_bytes (-1 unknown).
    """
    table = memory(trace)
    held = table["allocated_bytes"].where(table["allocated_bytes"] >= 0, table["change_bytes"])
    top = table.loc[held.groupby(table["device"], sort=True).idxmax()].set_index("device")
    found = _counted(table, ["device"])
    found["peak_bytes"] = held.groupby(table["device"]).max()
    found["peak_time_ns"] = top["time_ns"]
    found["peak_op"] = pd.Series(_op_names(trace, top["op"].to_numpy(np.int64)), index=top.index, dtype=object)
    found["peak_reserved_bytes"] = table.groupby("device")["reserved_bytes"].max()
    return found.reset_index()


@measure
def memory_by_step(trace: Trace) -> pd.DataFrame:
    """One row per device and step (-1: outside all steps): what it asked for.

    Columns: device, step, allocations, releases, allocated_bytes, released_bytes, kept_bytes (allocated less released:
    what the step leaves behind), peak_bytes (most given out at once during it, -1 unknown).
    """
    table = memory(trace)
    found = _counted(table, ["device", "step"])
    found["kept_bytes"] = found["allocated_bytes"] - found["released_bytes"]
    found["peak_bytes"] = table.groupby(["device", "step"])["allocated_bytes"].max()
    return found.reset_index()


def _counted(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    given, back = table["bytes"].clip(lower=0), (-table["bytes"]).clip(lower=0)
    parts = table[keys].assign(
        allocations=(table["bytes"] > 0).astype("int64"),
        releases=(table["bytes"] < 0).astype("int64"),
        allocated_bytes=given,
        released_bytes=back,
    )
    return parts.groupby(keys, sort=True).sum()


def _rows(trace: Trace) -> Ints:
    """The allocator's events; PyTorch 1.9 to 1.11 give them no category, so they are told by name."""
    marks = trace.events.matching_names(MARK.__eq__)
    rows = np.flatnonzero(marks[trace.events.name]) if len(marks) else np.empty(0, np.int64)
    known = trace.events.column("Bytes").rows
    return rows[np.isin(rows, known)]


def _named(kinds: Ints, numbers: Ints) -> list[str]:
    pairs, same = np.unique(np.stack((kinds, numbers)), axis=1, return_inverse=True)
    names = [_name(int(kind), int(number)) for kind, number in pairs.T.tolist()]
    return [names[place] for place in same.reshape(-1).tolist()]


def _name(kind: int, number: int) -> str:
    name = DEVICES.get(kind, f"device-type-{kind}" if kind >= 0 else "unknown")
    return f"{name}:{number}" if number >= 0 and kind != 0 else name


def _op_names(trace: Trace, rows: Ints) -> list[str]:
    return [trace.events.name_of(row) if row >= 0 else "" for row in rows.tolist()]


MEMORY = Table(name="memory", of=memory)
PEAKS = Table(name="memory-peaks", of=memory_peaks)
BY_STEP = Table(name="memory-by-step", of=memory_by_step)
