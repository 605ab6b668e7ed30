"""The matrix products and convolutions that ran on a GPU: their types, their kernels, and the least they could take."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures import conv_costs
from profiler_doctor.analyzer.measures.costs import PRODUCTS, cost
from profiler_doctor.analyzer.measures.operands import ARGUMENTS, operands
from profiler_doctor.analyzer.measures.peaks import Peak, device_of, peak_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Ints, Trace, measure

TF32 = re.compile(r"tf32|s1688|tensorop_s\d|tensorop_s_", re.IGNORECASE)
"""Kernels that multiply float matrices in tf32 (RULES.md, PRC001)."""
SIMT = re.compile(r"simt_sgemm|\bsgemm|_sgemm_|f32f32_f32f32|scudnn|simt_fprop|simt_[dw]grad", re.IGNORECASE)
"""Kernels that multiply float matrices without tensor cores."""


@measure
def products(trace: Trace) -> pd.DataFrame:
    """One row per product or convolution that launched kernels in the judged window, in order of their ops.

    Columns: op (event row of the innermost op), name, type (as the profiler names it, of its first tensor; "" unknown),
    device, time_ns (sum of its kernels), tf32 and simt (whether any kernel's name says so), flops, bytes (-1 unknown),
    convolution (else a product of matrices).
    """
    work = linked_work(trace)
    known = trace.events.matching_names(lambda name: name in PRODUCTS or conv_costs.known(name))
    work = work[(work["kind"] == "kernel") & (work["op"] >= 0)]
    work = work[known[trace.events.name[work["op"].to_numpy(np.int64)]]]
    codes = trace.events.name[work["row"].to_numpy(np.int64)]
    work = work.assign(
        tf32=trace.events.matching_names(TF32.search)[codes], simt=trace.events.matching_names(SIMT.search)[codes]
    )
    grouped = work.groupby("op", sort=True)
    table: pd.DataFrame = grouped.agg(
        device=("device", "first"), time_ns=("dur_ns", "sum"), tf32=("tf32", "max"), simt=("simt", "max")
    ).reset_index()
    rows = table["op"].to_numpy(np.int64)
    kinds, flops, moved = _costs(trace, rows)
    names = trace.events.names_at(rows)
    convolution = np.array([conv_costs.known(name) for name in names], np.bool_)
    found: pd.DataFrame = table.assign(name=names, type=kinds, flops=flops, bytes=moved, convolution=convolution)
    return found


def _costs(trace: Trace, rows: Ints) -> tuple[list[str], Ints, Ints]:
    """Type, operations and bytes of each op; those that were called alike are looked at once."""
    codes = [trace.events.text(argument).at(rows, -1) for argument in ARGUMENTS]
    codes.append(trace.events.name[rows].astype(np.int64))
    _, first, same = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
    found = [_cost(trace, int(row)) for row in rows[first]]
    every = [found[place] for place in same.reshape(-1)]
    numbers = np.array([(flops, moved) for _, flops, moved in every] or np.empty((0, 2)), np.int64)
    return [kind for kind, _, _ in every], numbers[:, 0], numbers[:, 1]


def _cost(trace: Trace, row: int) -> tuple[str, int, int]:
    given = operands(trace, row)
    known = cost(trace.events.name_of(row), given)
    kind = next((operand.type for operand in given if operand.dims), "")
    return (known.type, known.flops, known.bytes) if known else (kind, -1, -1)


def least_ns(table: pd.DataFrame, peak: Peak, kind: str) -> pd.Series[float]:
    """What each product of `products` takes at least if computed in `kind` (a name of the peaks), in ns.

    Operations over the peak's rate, or bytes over its bandwidth, whichever is longer; NaN where the cost is unknown.
    Bytes shrink with the type: a float is twice as wide as a half.
    """
    narrower = 0.5 if kind in ("fp16", "bf16") else 1.0
    rate = peak.flops_per_s(kind, products=True) or np.nan
    known = table["flops"] >= 0
    compute = table["flops"].where(known) * 1e9 / rate
    memory = narrower * table["bytes"].where(known) * 1e9 / peak.bytes_per_s
    return compute.where(compute > memory, memory)


def peak_at(trace: Trace, device: int) -> Peak | None:
    """What a device can do at most; None unknown."""
    found = device_of(trace, device)
    return peak_of(found) if found else None


def capability(trace: Trace) -> tuple[int, int] | None:
    """The lowest compute capability of the trace's devices; None where one is unknown or is no NVIDIA device."""
    known = [device.compute_capability for device in trace.devices]
    nvidia = all(device.vendor in ("", "nvidia") for device in trace.devices)
    return min(one for one in known if one) if known and all(known) and nvidia else None


def kernels_of(trace: Trace, op_rows: Ints) -> pd.DataFrame:
    """The kernels of the window that these ops launched: columns of `gpu_work`."""
    work = linked_work(trace)
    return work[work["op"].isin(op_rows) & (work["kind"] == "kernel")]
