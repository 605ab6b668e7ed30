"""One side of a comparison, from a trace or from a finished document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.comparison import STEPS_TO_JUDGE, Amount, Range, Side
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.peaks import device_of
from profiler_doctor.analyzer.measures.roofline import op_costs
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.measures.totals import tables, totals
from profiler_doctor.analyzer.measures.window import used_steps
from profiler_doctor.analyzer.model import Diagnosis, HealthNote
from profiler_doctor.analyzer.tables import Tables
from profiler_doctor.analyzer.totals import Totals
from profiler_doctor.analyzer.trace import Trace

NO_GPU_WORK = "GPU-NOT-RECORDED"
"""The health note of a reader that saw a GPU being driven and nothing that it did."""
ALL_ROWS = 1 << 60
NUMBERS = (
    "span_ns",
    "busy_ns",
    "busy_kernels_ns",
    "idle_ns",
    "kernels",
    "kernel_time_ns",
    "launches",
    "graph_launches",
)
Named = Mapping[str, Amount]


def side_of_trace(trace: Trace, name: str) -> Side:
    """A trace as a side: all of its tables, and the range of each row over the steps."""
    whole, known, costs = totals(trace), tables(trace, ALL_ROWS), op_costs(trace)
    devices = [device_of(trace, int(number)) for number in whole.devices]
    return Side(
        name=name,
        ran_on=_ran_on(whole, trace.health),
        devices=frozenset(device.name for device in devices if device is not None and device.name),
        steps=len(whole.steps),
        step_ns=whole.step_ns,
        timed=len(used_steps(trace)),
        profiled=trace.facts is None or not trace.facts.step_ns,
        numbers=_numbers(whole),
        tables=_tables(known),
        ranges={"ops": _op_ranges(trace), "kernels": _kernel_ranges(trace)},
        product_flops=int(costs.loc[costs["kind"] != "pointwise", "flops"].sum()),
        roots=_roots(row.name for row in known.modules),
    )


def side_of_document(diagnosis: Diagnosis, name: str) -> Side:
    """A finished document as a side: the rows that stand in it."""
    whole, capture = diagnosis.totals, diagnosis.capture
    own_time = capture is not None and capture.timed_steps > 0
    recorded = max(len(whole.steps) - (len(whole.steps) >= STEPS_TO_JUDGE), 0)
    ran_on = _ran_on(whole, diagnosis.health)
    return Side(
        name=name,
        ran_on=ran_on,
        devices=_devices(diagnosis.environment, ran_on),
        steps=len(whole.steps),
        step_ns=whole.step_ns,
        timed=capture.timed_steps if capture is not None and own_time else recorded,
        profiled=not own_time,
        numbers=_numbers(whole),
        tables=_tables(diagnosis.tables),
        cut=_cut(diagnosis.tables),
        counts=diagnosis.counters,
        environment=diagnosis.environment,
        roots=_roots(row.name for row in diagnosis.tables.modules) | frozenset(capture.roots if capture else ()),
    )


def _ran_on(whole: Totals, health: Iterable[HealthNote]) -> Literal["gpu", "cpu", "unrecorded"]:
    if whole.devices:
        return "gpu"
    return "unrecorded" if any(note.code == NO_GPU_WORK for note in health) else "cpu"


def _numbers(whole: Totals) -> dict[str, int]:
    copies = whole.copies.values()
    own = {name: int(getattr(whole, name)) for name in NUMBERS}
    own |= {"copies": sum(copy.count for copy in copies), "copy_bytes": sum(copy.bytes for copy in copies)}
    return own | {
        "copy_time_ns": sum(copy.time_ns for copy in copies),
        "syncs": whole.syncs.count,
        "sync_time_ns": whole.syncs.time_ns,
    }


def _tables(known: Tables) -> dict[str, Named]:
    return {
        "ops": {row.name: Amount(count=row.count, host_ns=row.self_ns, gpu_ns=row.gpu_ns) for row in known.ops},
        "modules": {row.name: Amount(count=row.ops, host_ns=row.time_ns, gpu_ns=row.gpu_ns) for row in known.modules},
        "kernels": {row.name: Amount(count=row.count, host_ns=0, gpu_ns=row.time_ns) for row in known.kernels},
    }


def _cut(known: Tables) -> frozenset[str]:
    rows = {"kernels": len(known.kernels), "ops": len(known.ops), "modules": len(known.modules)}
    return frozenset(name for name, count in rows.items() if count and known.in_all.get(name, count + 1) > count)


def _devices(environment: Mapping[str, object], ran_on: str) -> frozenset[str]:
    """The names of what worked: the environment lists GPUs under `devices`, the processor under `cpu`."""
    if ran_on == "cpu":
        cpu = environment.get("cpu")
        model = cpu.get("model", cpu.get("name")) if isinstance(cpu, Mapping) else None
        return frozenset({model} if isinstance(model, str) and model else ())
    names = environment.get("devices")
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list | tuple) else frozenset()
    )


def _roots(paths: Iterable[str]) -> frozenset[str]:
    """The classes of the outermost modules: "Net" of "Net_0/Linear_3"."""
    outermost = {path.split("/", maxsplit=1)[0] for path in paths}
    return frozenset(name.rpartition("_")[0] or name for name in outermost)


def _op_ranges(trace: Trace) -> dict[str, Range]:
    table = ops(trace)
    table = table[table["is_op"]]
    work = gpu_work(trace)
    launched = work[work["op"] >= 0].groupby("op")["dur_ns"].sum()
    spent = table["self_ns"] + table["row"].map(launched).fillna(0).astype("int64")
    return _ranges(trace, table["name"], table["start_ns"], spent)


def _kernel_ranges(trace: Trace) -> dict[str, Range]:
    work = gpu_work(trace)
    kernels = work[work["kind"] == "kernel"]
    at = kernels["launch_start_ns"].where(kernels["launch"] >= 0, kernels["start_ns"])
    return _ranges(trace, kernels["name"], at, kernels["dur_ns"])


def _ranges(
    trace: Trace, names: pd.Series[str], times_ns: pd.Series[int], spent_ns: pd.Series[int]
) -> dict[str, Range]:
    """Name → range over the used steps of what it took in each; empty with fewer than STEPS_TO_JUDGE of them."""
    used = used_steps(trace)
    if len(used) < STEPS_TO_JUDGE:
        return {}
    step = step_at(trace, np.asarray(times_ns, dtype=np.int64))
    parts = pd.DataFrame({"name": names.to_numpy(), "step": step, "ns": spent_ns.to_numpy()})
    parts = parts[parts["step"].isin(used.index)]
    by_step = parts.pivot_table(index="name", columns="step", values="ns", aggfunc="sum", fill_value=0)
    by_step = by_step.reindex(columns=used.index, fill_value=0)
    low, high = by_step.min(axis=1).tolist(), by_step.max(axis=1).tolist()
    rows = zip(by_step.index.tolist(), low, high, strict=True)
    return {str(name): Range(low_ns=int(least), high_ns=int(most)) for name, least, most in rows}
