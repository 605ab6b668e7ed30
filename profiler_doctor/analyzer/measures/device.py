"""What ran on the devices, who launched it, and how long they were busy."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.host import op_of_call
from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.links import launch_of
from profiler_doctor.analyzer.measures.names import names_of, narrow, words
from profiler_doctor.analyzer.measures.steps import step_of
from profiler_doctor.analyzer.trace import GPU_WORK, Ints, Trace, measure

TRAILING_NUMBER = re.compile(r"(?:^|\s)(\d{1,18})\s*$")
LARGEST = 1 << 31
"""Numbers of devices and streams from here on are damage."""
KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


@measure
def gpu_work(trace: Trace) -> pd.DataFrame:
    """Every kernel, copy and memset, sorted by start.

    Columns: row, name, kind (kernel, memcpy, memset), device, stream, start_ns, end_ns, dur_ns, correlation (0 none),
    launch (row of the host call, -1 unlinked), launch_start_ns (0 unlinked), op (row of the op that launched it, -1),
    step (index by launch time, -1), bytes (-1 unknown).
    """
    events = trace.events
    rows = trace.rows(*GPU_WORK)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    launch = launch_of(trace).at(rows, -1).astype(np.int32)
    linked = launch >= 0
    kinds = list(KINDS.values())
    code_of = np.array([kinds.index(KINDS.get(name, kinds[0])) for name in events.categories] or [0], np.int8)
    return pd.DataFrame(
        {
            "row": rows.astype(np.int32),
            "name": names_of(trace, rows),
            "kind": words(code_of[events.category[rows]], kinds),
            "device": narrow(_place(trace, rows, "device", 0)),
            "stream": _place(trace, rows, "stream", 1),
            "start_ns": events.start_ns[rows],
            "end_ns": events.ends_at(rows),
            "dur_ns": np.maximum(events.dur_ns[rows], 0),
            "correlation": narrow(events.column("correlation").at(rows, 0)),
            "launch": launch,
            "launch_start_ns": np.where(linked, events.start_ns[launch], 0) if len(rows) else launch,
            "op": op_of_call(trace).at(launch, -1).astype(np.int32),
            "step": step_of(trace, rows).astype(np.int32),
            "bytes": events.column("bytes").at(rows, -1),
        },
        copy=False,
    )


@measure
def busy(trace: Trace) -> pd.DataFrame:
    """One row per device: device, start_ns, end_ns, span_ns, busy_ns, busy_kernels_ns, idle_ns, kernels.

    `busy_ns` is the union of all its work, `busy_kernels_ns` of its kernels alone; the span runs from the first start
    to the last end; idle is the rest of the span.
    """
    return _busy_by(gpu_work(trace), ["device"])


@measure
def busy_by_stream(trace: Trace) -> pd.DataFrame:
    """As `busy`, one row per device and stream (columns device, stream, …)."""
    return _busy_by(gpu_work(trace), ["device", "stream"])


def _busy_by(work: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    columns = [*keys, "start_ns", "end_ns", "span_ns", "busy_ns", "busy_kernels_ns", "idle_ns", "kernels"]
    found = [(*_tuple(key), *_busy(group)) for key, group in work.groupby(keys, sort=True)]
    return pd.DataFrame(found, columns=columns)


def _busy(work: pd.DataFrame) -> tuple[int, ...]:
    starts, ends = work["start_ns"].to_numpy(), work["end_ns"].to_numpy()
    kernels = (work["kind"] == "kernel").to_numpy()
    first, last = int(starts.min()), int(ends.max())
    busy_ns = union_ns(starts, ends)
    alone = union_ns(starts[kernels], ends[kernels])
    return first, last, last - first, busy_ns, alone, last - first - busy_ns, int(kernels.sum())


def _tuple(key: object) -> tuple[object, ...]:
    return key if isinstance(key, tuple) else (key,)


def _place(trace: Trace, rows: Ints, argument: str, part: int) -> Ints:
    """Device or stream: the argument, else the number in the row's pid or tid, else -1."""
    threads = trace.events.threads
    from_thread = np.array([_trailing_number(pair[part]) for pair in threads] or [-1], np.int64)
    written = trace.events.column(argument).at(rows, -1)
    return np.where((written >= 0) & (written < LARGEST), written, from_thread[trace.events.thread[rows]])


def _trailing_number(value: int | str) -> int:
    found = TRAILING_NUMBER.search(value) if isinstance(value, str) else None
    number = value if isinstance(value, int) else int(found[1]) if found else -1
    return number if 0 <= number < LARGEST else -1


GPU_WORK_TABLE = Table(name="gpu-work", of=gpu_work)
BUSY = Table(name="busy", of=busy)
BUSY_BY_STREAM = Table(name="busy-by-stream", of=busy_by_stream)
