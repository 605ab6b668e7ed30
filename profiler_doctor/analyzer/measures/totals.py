"""The whole trace in numbers, and the top of its tables, as the document shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import busy, gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.idle import idle_by_cause
from profiler_doctor.analyzer.measures.kernels import kernel_table
from profiler_doctor.analyzer.measures.module_table import module_table
from profiler_doctor.analyzer.measures.optable import op_table
from profiler_doctor.analyzer.measures.parts import step_by_part
from profiler_doctor.analyzer.measures.short_tables import memory_rows, roofline_rows, sync_rows
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.syncs import syncs
from profiler_doctor.analyzer.tables import KernelRow, ModuleRow, OpRow, Tables
from profiler_doctor.analyzer.totals import CopyTotals, DeviceTotals, Step, StepTime, SyncTotals, Totals
from profiler_doctor.analyzer.trace import Ints, Trace, measure


@measure
def totals(trace: Trace) -> Totals:
    """Everything in `totals` of the document; DESIGN.md says what each number counts."""
    devices, work, calls = busy(trace), gpu_work(trace), host_calls(trace)
    kernels = work[work["kind"] == "kernel"]
    return Totals(
        events=len(trace.events),
        steps=_steps(trace),
        step_ns=step_time(trace),
        span_ns=int(devices["span_ns"].sum()),
        busy_ns=int(devices["busy_ns"].sum()),
        busy_kernels_ns=int(devices["busy_kernels_ns"].sum()),
        idle_ns=int(devices["idle_ns"].sum()),
        devices=_devices(devices),
        kernels=len(kernels),
        kernel_time_ns=int(kernels["dur_ns"].sum()),
        launches=int((calls["kind"] == "launch").sum()),
        graph_launches=int((calls["kind"] == "graph_launch").sum()),
        copies=_copies(trace),
        syncs=_syncs(trace),
        idle_by_cause=idle_by_cause(trace),
        step_by_part=step_by_part(trace),
    )


def tables(trace: Trace, top: int) -> Tables:
    """The first `top` rows of the tables of kernels and ops, and the `top` that count most of the others."""
    kernels, ops = kernel_table(trace), op_table(trace)
    modules = module_table(trace).sort_values(["gpu_ns", "time_ns"], ascending=False, kind="stable")
    modules = modules[["module", "ops", "time_ns", "gpu_ns"]]
    waits, all_waits = sync_rows(trace, top)
    devices, all_devices = memory_rows(trace, top)
    roofs, all_roofs = roofline_rows(trace, top)
    in_all = {"kernels": len(kernels), "ops": len(ops), "modules": len(modules)}
    return Tables(
        kernels=tuple(
            KernelRow(name=name, count=count, time_ns=time) for name, count, time in _values(kernels.head(top), 3)
        ),
        ops=tuple(
            OpRow(name=name, count=count, time_ns=time, self_ns=own, gpu_ns=gpu)
            for name, count, time, own, gpu in _values(ops.head(top), 5)
        ),
        modules=tuple(
            ModuleRow(name=name, ops=ops, time_ns=time, gpu_ns=gpu)
            for name, ops, time, gpu in _values(modules.head(top), 4)
        ),
        syncs=waits,
        memory=devices,
        roofline=roofs,
        in_all={**in_all, "syncs": all_waits, "memory": all_devices, "roofline": all_roofs},
    )


def step_time(trace: Trace) -> StepTime:
    """The time of one step: un-profiled where our capture timed it, else as recorded (the first of ≥ 3 left out)."""
    if trace.facts is not None and trace.facts.step_ns:
        return _quartiles(
            np.array(trace.facts.step_ns, np.int64), f"{len(trace.facts.step_ns)} steps timed without a profiler"
        )
    recorded = steps(trace)["dur_ns"].to_numpy()
    warm = recorded[1:] if len(recorded) >= 3 else recorded
    if not len(warm):
        return StepTime()
    left_out = ", the first left out" if len(warm) < len(recorded) else ""
    recorded_steps = "1 recorded step" if len(warm) == 1 else f"{len(warm)} recorded steps"
    return _quartiles(warm, f"{recorded_steps} (profiled time{left_out})")


def _quartiles(times: Ints, basis: str) -> StepTime:
    low, median, high = (round(float(value)) for value in np.quantile(times, (0.25, 0.5, 0.75)))
    return StepTime(median=median, low=low, high=high, basis=basis)


def _steps(trace: Trace) -> tuple[Step, ...]:
    table = steps(trace)
    marks = zip(table["name"], table["start_ns"], table["mark_end_ns"], strict=True)
    return tuple(Step(name=str(name), start_ns=int(start), dur_ns=int(end - start)) for name, start, end in marks)


def _devices(table: pd.DataFrame) -> Mapping[str, DeviceTotals]:
    rows = _values(table[["device", "span_ns", "busy_ns", "idle_ns", "kernels"]], 5)
    return {
        str(device): DeviceTotals(span_ns=span, busy_ns=used, idle_ns=idle, kernels=kernels)
        for device, span, used, idle, kernels in rows
    }


def _copies(trace: Trace) -> Mapping[str, CopyTotals]:
    table = copies(trace)
    known = table["bytes"].clip(lower=0)
    by_name = (
        table.assign(bytes=known)
        .groupby("name", sort=True)
        .agg(count=("row", "count"), bytes=("bytes", "sum"), time_ns=("dur_ns", "sum"))
    )
    rows = _values(by_name.reset_index(), 4)
    return {name: CopyTotals(count=count, bytes=size, time_ns=time) for name, count, size, time in rows}


def _syncs(trace: Trace) -> SyncTotals:
    table = syncs(trace)
    waits = table.loc[table["synchronize"], "dur_ns"]
    return SyncTotals(count=len(waits), time_ns=int(waits.sum()))


def _values(table: pd.DataFrame, columns: int) -> list[tuple[Any, ...]]:
    """The first columns of each row as plain Python values."""
    return list(zip(*(table.iloc[:, place].tolist() for place in range(columns)), strict=True))
