"""Why a device was idle: every gap between two pieces of its work, split by cause without rest or overlap.

The gap (a, b) ends with the work that starts at b, launched at L. If L ≤ a the work was waiting on the device's side.
Otherwise [L, b] is the way from host to device, and [a, L] is what the launching thread did meanwhile: a blocking
call, an allocation, fetching data, an op's own work, else Python. What the launching thread left open goes to what
other threads did, in the same order (the backward pass has a thread of its own, which starts when another hands over).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.intervals import Intervals, gaps, shared, union, without
from profiler_doctor.analyzer.measures.names import distinct, words
from profiler_doctor.analyzer.measures.ops import covering_ops
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace, measure

CAUSES = (
    "device_or_dependency",
    "launch_latency",
    "blocking_call",
    "alloc_call",
    "dataloader",
    "op_dispatch",
    "python",
)
LOADER = re.compile(r"DataLoader.*__next__")
"""How the profiler marks the fetching of a batch, single-process or with workers."""
COLUMNS = ("device", "start_ns", "end_ns", "dur_ns", "cause", "gap", "ended_by")


@measure
def idle_gaps(trace: Trace) -> pd.DataFrame:
    """The idle time of every device, one row per piece.

    Columns: device, start_ns, end_ns, dur_ns, cause (see CAUSES), gap (number of the gap on its device), ended_by
    (row of the work that ended the gap). The pieces of a device add up to its idle time to the nanosecond.
    """
    work = gpu_work(trace)
    parts = [_of_device(trace, int(str(device)), group) for device, group in work.groupby("device", sort=True)]
    if not parts:
        return pd.DataFrame({name: [] for name in COLUMNS})
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]


@measure
def idle_by_cause(trace: Trace) -> dict[str, int]:
    """Cause → idle ns, summed over devices: every cause, or nothing where no device work was recorded."""
    if not len(gpu_work(trace)):
        return {}
    return spent_by_cause(idle_gaps(trace))


def spent_by_cause(pieces: pd.DataFrame) -> dict[str, int]:
    """Every cause → the sum of its pieces, of a table with the columns of `idle_gaps`."""
    if not len(pieces):
        return dict.fromkeys(CAUSES, 0)
    spent = np.bincount(pieces["cause"].cat.codes, weights=pieces["dur_ns"], minlength=len(CAUSES))
    return dict(zip(CAUSES, spent.astype(np.int64).tolist(), strict=True))


def _of_device(trace: Trace, device: int, work: pd.DataFrame) -> pd.DataFrame:
    holes = gaps(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    ender = np.searchsorted(work["start_ns"].to_numpy(), holes.ends, side="left")
    launch = work["launch"].to_numpy()[ender]
    launched = np.where(launch >= 0, work["launch_start_ns"].to_numpy()[ender], holes.starts)
    launched = np.clip(launched, holes.starts, holes.ends)
    on_device = launched <= holes.starts
    late = np.flatnonzero(~on_device)
    parts = {
        "device_or_dependency": _pick(holes.starts, holes.ends, np.flatnonzero(on_device)),
        "launch_latency": _pick(launched, holes.ends, late),
        **_host_side(trace, _pick(holes.starts, launched, late), trace.events.thread[launch].astype(np.int64)),
    }
    return _table(parts, device, work["row"].to_numpy()[ender])


def _host_side(trace: Trace, waits: Intervals, thread: Ints) -> dict[str, Intervals]:
    """The waits for a launch, split by what the host did; `thread` is the launching thread of each owner."""
    found: dict[str, list[Intervals]] = {cause: [] for cause in CAUSES[2:]}
    rows = _host_rows(trace)
    anywhere = _covers(trace, rows)
    codes = distinct(thread[waits.owner])
    for code in codes:
        mine = waits if len(codes) == 1 else _where(waits, thread[waits.owner] == code)
        own = {cause: chosen[trace.events.thread[chosen] == code] for cause, chosen in rows.items()}
        left = _split(found, mine, _covers(trace, own))
        found["python"].append(_split(found, left, anywhere))
    return {cause: _together(parts) for cause, parts in found.items()}


def _split(found: dict[str, list[Intervals]], rest: Intervals, covers: dict[str, Intervals]) -> Intervals:
    for cause, cover in covers.items():
        found[cause].append(shared(rest, cover))
        rest = without(rest, cover)
    return rest


def _host_rows(trace: Trace) -> dict[str, Codes | Ints]:
    """The blocking calls, allocations, fetches of the data loader and ops of all host threads; by priority."""
    calls = host_calls(trace)
    return {
        "blocking_call": calls["row"].to_numpy()[(calls["kind"] == "blocking").to_numpy()],
        "alloc_call": calls["row"].to_numpy()[(calls["kind"] == "alloc").to_numpy()],
        "dataloader": trace.rows_named(LOADER.search, ("user_annotation", "cpu_op")),
        "op_dispatch": covering_ops(trace),
    }


def _covers(trace: Trace, rows: Mapping[str, Codes | Ints]) -> dict[str, Intervals]:
    """When each cause's rows ran."""
    events = trace.events
    return {cause: union(events.start_ns[chosen], events.ends_at(chosen)) for cause, chosen in rows.items()}


def _pick(starts: Ints, ends: Ints, owners: Ints) -> Intervals:
    kept = owners[ends[owners] > starts[owners]]
    return Intervals(starts[kept], ends[kept], kept)


def _where(parts: Intervals, chosen: Bools) -> Intervals:
    return Intervals(parts.starts[chosen], parts.ends[chosen], parts.owner[chosen])


def _together(parts: list[Intervals]) -> Intervals:
    if not parts:
        nothing = np.empty(0, np.int64)
        return Intervals(nothing, nothing, nothing)
    starts, ends = (np.concatenate([getattr(part, side) for part in parts]) for side in ("starts", "ends"))
    return Intervals(starts, ends, np.concatenate([part.owner for part in parts]))


def _table(by_cause: dict[str, Intervals], device: int, ended_by: Codes) -> pd.DataFrame:
    """The pieces in time order; `ended_by` is the row that ends each gap."""
    parts = _together(list(by_cause.values()))
    cause = np.repeat(
        np.array([CAUSES.index(cause) for cause in by_cause], np.int8), [len(part) for part in by_cause.values()]
    )
    order = np.argsort(parts.starts, kind="stable")
    start, end, gap = parts.starts[order], parts.ends[order], parts.owner[order].astype(np.int32)
    columns = {"device": np.full(len(order), device, np.int32), "start_ns": start, "end_ns": end, "dur_ns": end - start}
    more = {"cause": words(cause[order], CAUSES), "gap": gap, "ended_by": ended_by[gap].astype(np.int32)}
    return pd.DataFrame({**columns, **more}, copy=False)[list(COLUMNS)]


IDLE = Table(name="idle", of=idle_gaps)
