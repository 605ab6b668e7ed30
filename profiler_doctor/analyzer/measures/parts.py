"""Where the median recorded step goes, exclusive and complete: on the CPU, or on the device that worked most."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.collectives import COMMUNICATES
from profiler_doctor.analyzer.measures.cpu import cpu_step_parts, median_step
from profiler_doctor.analyzer.measures.device import busy, gpu_work
from profiler_doctor.analyzer.measures.idle import CAUSES, idle_gaps
from profiler_doctor.analyzer.measures.intervals import Intervals, shared, union, without
from profiler_doctor.analyzer.trace import Bools, Trace, measure

IDLE = {
    "device_or_dependency": "idle: the device waits for itself",
    "launch_latency": "idle: launch on its way",
    "blocking_call": "idle: blocking call",
    "alloc_call": "idle: allocation",
    "dataloader": "idle: data loading",
    "op_dispatch": "idle: dispatch of ops",
    "python": "idle: python",
}
OUTSIDE = "before the first or after the last device work"


@measure
def step_by_part(trace: Trace) -> dict[str, int]:
    """Part → ns of the median recorded step, the largest first; the parts add up to the step. Empty without steps."""
    return gpu_step_parts(trace) if len(gpu_work(trace)) else cpu_step_parts(trace)


@measure
def gpu_step_parts(trace: Trace) -> dict[str, int]:
    """The step's own stretch of time on the device that worked most.

    Kernels come first; copies and collectives count while no other kernel runs; idle time is split as in `idle_gaps`.
    """
    step = median_step(trace)
    devices = busy(trace)
    if step is None or devices.empty:
        return {}
    device = int(devices["device"].iloc[int(devices["busy_ns"].argmax())])
    work, idle = (_within(table, device, step) for table in (gpu_work(trace), idle_gaps(trace)))
    left = Intervals(np.array([step[0]]), np.array([step[1]]), np.array([0]))
    parts: dict[str, int] = {}
    for name, cover in (*_working(trace, work), *_idle(idle)):
        parts[name] = shared(left, cover).total_ns
        left = without(left, cover)
    parts[OUTSIDE] = left.total_ns
    return dict(sorted(((name, time) for name, time in parts.items() if time), key=lambda pair: -pair[1]))


def _within(table: pd.DataFrame, device: int, step: tuple[int, ...]) -> pd.DataFrame:
    """What of the table lies on the device and, at least in part, in the step."""
    there = (table["device"] == device) & (table["end_ns"] > step[0]) & (table["start_ns"] < step[1])
    return table[there]


def _working(trace: Trace, work: pd.DataFrame) -> list[tuple[str, Intervals]]:
    kernel = (work["kind"] == "kernel").to_numpy()
    names = trace.events.name[work["row"].to_numpy()]
    collective = kernel & trace.events.matching_names(COMMUNICATES.search)[names]
    return [
        ("kernels", _cover(work, kernel & ~collective)),
        ("exposed copies", _cover(work, ~kernel)),
        ("exposed communication", _cover(work, collective)),
    ]


def _idle(idle: pd.DataFrame) -> list[tuple[str, Intervals]]:
    return [(IDLE[cause], _cover(idle, (idle["cause"] == cause).to_numpy())) for cause in CAUSES]


def _cover(table: pd.DataFrame, chosen: Bools) -> Intervals:
    return union(table["start_ns"].to_numpy(np.int64)[chosen], table["end_ns"].to_numpy(np.int64)[chosen])
