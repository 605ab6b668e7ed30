"""How close the ops come to what the device can do: operations and bytes by their shapes, against its peaks."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Has, Table
from profiler_doctor.analyzer.measures.costs import Cost, cost
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.element_types import peak_name
from profiler_doctor.analyzer.measures.operands import ARGUMENTS, operands
from profiler_doctor.analyzer.measures.ops import nearest_above, outermost
from profiler_doctor.analyzer.measures.peaks import Peak, device_of, peak_of
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

TF32 = re.compile(r"tf32|s1688|tensorop_s\d", re.IGNORECASE)
"""Kernels that multiply float matrices in tf32 (RULES.md, PRC001)."""
LEAVES = re.compile(r"HtoD|DtoH|PtoP|HtoH")
"""Copies that leave the device: its memory's speed is not what bounds them."""
KEYS = ["op", "kind", "type", "device"]


@measure
def op_costs(trace: Trace) -> pd.DataFrame:
    """One row per call of an op whose shapes tell its cost, in file order.

    Of products inside each other (linear, addmm) the innermost counts, which is the one whose type is computed in; what
    works element by element counts outermost, and not inside a product.

    Columns: row, op (name), kind (matmul, convolution, attention, pointwise), type (as the profiler names it), flops
    (a multiplication and an addition are two), bytes (operands and result, each moved once).
    """
    rows = trace.rows("cpu_op")
    rows = rows[trace.events.text(ARGUMENTS[0]).at(rows, -1) >= 0]
    known = np.full(len(trace.events), -1, np.int32)
    costs: list[Cost] = []
    for combination in combinations(trace, rows):
        found = cost(trace.events.name_of(int(combination[0])), operands(trace, int(combination[0])))
        if found is not None:
            known[combination] = len(costs)
            costs.append(found)
    priced = rows[known[rows] >= 0]
    products = np.array([found.kind != "pointwise" for found in costs], np.bool_)[known[priced]]
    rows = _counted(trace, priced, products)
    chosen = [costs[place] for place in known[rows].tolist()]
    return pd.DataFrame(
        {
            "row": rows,
            "op": trace.events.names_at(rows),
            "kind": [found.kind for found in chosen],
            "type": [found.type for found in chosen],
            "flops": np.array([found.flops for found in chosen], np.int64),
            "bytes": np.array([found.bytes for found in chosen], np.int64),
        }
    )


@measure
def roofline(trace: Trace) -> pd.DataFrame:
    """One row per op, type and device, the longest first: what it computed and moved, and what the device could have.

    Columns: op, kind, type ("tf32" where its kernels work in it), device (-1: the CPU, in a recording without device
    work), calls, flops, bytes, time_ns (of the device work that its calls launched; on a CPU of the calls), flops_per_s
    and bytes_per_s (reached; NaN where no time was), flops_per_byte, roof_ns (what the device needs at least: for each
    call the longer one of computing and moving at its peaks; NaN for a device without known peaks), bound ("compute"
    or "memory": which of them takes longer in all; "" unknown), roof_share (roof_ns over time_ns, NaN unknown).
    """
    table = _timed(trace)
    peaks = {number: _peak(trace, number) for number in table["device"].unique().tolist()}
    table["compute_ns"], table["memory_ns"] = _least(table, peaks)
    table["roof_ns"] = table[["compute_ns", "memory_ns"]].max(axis=1, skipna=False)
    summed = ["flops", "bytes", "time_ns", "compute_ns", "memory_ns", "roof_ns"]
    grouped = table.groupby(KEYS, sort=True)
    found = grouped[summed].sum(min_count=1).assign(calls=grouped.size()).reset_index()
    found = found.astype(dict.fromkeys(["flops", "bytes", "time_ns"], "int64"))
    spent = found["time_ns"].where(found["time_ns"] > 0)
    found["flops_per_s"], found["bytes_per_s"] = found["flops"] * 1e9 / spent, found["bytes"] * 1e9 / spent
    found["flops_per_byte"] = found["flops"] / found["bytes"].where(found["bytes"] > 0)
    told = found["roof_ns"].notna()
    longer = np.where(found["compute_ns"] > found["memory_ns"], "compute", "memory")
    found["bound"] = np.where(told, longer, "")
    found["roof_share"] = found["roof_ns"] / spent
    columns = [*KEYS, "calls", "flops", "bytes", "time_ns", "flops_per_s", "bytes_per_s", "flops_per_byte"]
    found = found[[*columns, "roof_ns", "bound", "roof_share"]]
    return found.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def _counted(trace: Trace, rows: Ints, products: Bools) -> Ints:
    """Those of the rows that count; `products` says for each of them whether it is one."""
    inner = _mask(trace, rows[products])
    outer = nearest_above(trace, rows[products], inner)
    inner[outer[outer >= 0]] = False
    chosen = inner | _mask(trace, rows[~products])
    kept = outermost(trace, rows, chosen) == rows
    return np.compress(kept, rows)


def _mask(trace: Trace, rows: Ints) -> Bools:
    mask = np.zeros(len(trace.events), np.bool_)
    mask[rows] = True
    return mask


def combinations(trace: Trace, rows: Ints) -> list[Ints]:
    """The rows that share a name and everything that they were called with, one array per combination."""
    same = trace.events.name[rows].astype(np.int64)
    for argument in ARGUMENTS:
        codes = trace.events.text(argument).at(rows, -1) + 1
        same = pd.factorize(same * (codes.max(initial=0) + 1) + codes)[0].astype(np.int64)
    order = np.argsort(same, kind="stable")
    ends = np.flatnonzero(np.diff(same[order])) + 1
    return [rows[part] for part in np.split(order, ends) if len(part)]


def _timed(trace: Trace) -> pd.DataFrame:
    """The costs of the calls with their device and time; in a recording with device work only calls that launched.

    Calls whose copies leave the device are left out.
    """
    costs, work = op_costs(trace), gpu_work(trace)
    if not len(work):  # the host's time is the work's own only where no device was driven
        own = trace.events.dur_ns[costs["row"].to_numpy(np.int64)] * (Has.CPU_ONLY in trace.has)
        return costs.assign(device=-1, time_ns=own)
    codes = trace.events.name[work["row"].to_numpy(np.int64)]
    work = work.assign(
        row=outermost(trace, work["op"].to_numpy(np.int64), _mask(trace, costs["row"].to_numpy(np.int64))),
        tf32=trace.events.matching_names(TF32.search)[codes],
        leaves=trace.events.matching_names(LEAVES.search)[codes],
    )
    by_row = work[work["row"] >= 0].groupby("row")
    launched = by_row.agg(
        device=("device", "first"), time_ns=("dur_ns", "sum"), tf32=("tf32", "max"), leaves=("leaves", "max")
    )
    table = costs.join(launched[~launched["leaves"].astype(bool)], on="row", how="inner")
    in_tf32 = table["tf32"].astype(bool) & (table["type"] == "float") & (table["kind"] != "pointwise")
    return table.assign(type=table["type"].where(~in_tf32, "tf32"))


def _least(table: pd.DataFrame, peaks: dict[int, Peak | None]) -> tuple[pd.Series[float], pd.Series[float]]:
    """The time that computing and moving take each at the device's peaks, in ns; NaN where those are not known."""
    distinct = table[["device", "kind", "type"]].drop_duplicates()
    keys = list(zip(*(distinct[name].tolist() for name in ("device", "kind", "type")), strict=True))
    rates = {(device, kind, name): _rate(peaks[device], kind, name) for device, kind, name in keys}
    wanted = zip(*(table[name].tolist() for name in ("device", "kind", "type")), strict=True)
    flops = pd.Series([rates[key] for key in wanted], index=table.index, dtype="float64")
    speeds = {device: peak.bytes_per_s if peak else None for device, peak in peaks.items()}
    speed = pd.Series([speeds[device] for device in table["device"].tolist()], index=table.index, dtype="float64")
    return table["flops"] * 1e9 / flops, table["bytes"] * 1e9 / speed


def peaks_of(trace: Trace, device: int, kind: str, type_: str) -> tuple[float | None, float | None]:
    """What the device computes of this kind of op in this type, and moves, per second at most; None unknown."""
    peak = _peak(trace, device)
    return _rate(peak, kind, type_), peak.bytes_per_s if peak else None


def _rate(peak: Peak | None, kind: str, name: str) -> float | None:
    """Operations per second; element-wise work on halves is done in fp32."""
    if peak is None:
        return None
    wanted = "tf32" if name == "tf32" else peak_name(name)
    if kind == "pointwise":
        return peak.vector.get("fp64" if wanted == "fp64" else "fp32")
    return peak.flops_per_s(wanted, products=True)


def _peak(trace: Trace, number: int) -> Peak | None:
    device = device_of(trace, number) if number >= 0 else None
    return peak_of(device) if device else None


OP_COSTS = Table(name="op-costs", of=op_costs)
ROOFLINE = Table(name="roofline", of=roofline)
