"""The host's calls into the device's runtime and driver: what each does, and under which op."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.links import launch_of
from profiler_doctor.analyzer.measures.names import distinct, names_of, narrow, words
from profiler_doctor.analyzer.measures.ops import enclosing_op
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.trace import HOST_CALLS, Bools, Column, Ints, Trace, measure

KINDS = {
    "graph_launch": re.compile(r"GraphLaunch|GraphExec(?:Update)?Launch"),
    "launch": re.compile(
        r"Launch(?:Cooperative)?Kernel|LaunchCooperative|^cudaLaunch(?:_v\d+)?$|EnqueueKernelLaunch|AppendLaunch"
    ),
    "blocking": re.compile(
        r"(?:Device|Stream|Event|Ctx|Context)_?Synchronize|^(?:cuda|hip)Memcpy(?:_v\d+|_ptds)?$|^hipMemcpyWithStream"
        r"|^(?:cuda|hip)Memcpy(?:2D|3D|ToSymbol|FromSymbol)(?!.*Async)|^cuMemcpy(?!.*(?:Async|Peer|Batch))"
        r"|QueueFinish|EventWait$|HostSynchronize"
    ),
    "copy": re.compile(r"Memcpy", re.IGNORECASE),
    "memset": re.compile(r"Memset|MemoryFill", re.IGNORECASE),
    "alloc": re.compile(
        r"^(?:cuda|hip)(?:Ext)?(?:Malloc|Free|HostAlloc|HostFree|HostMalloc|HostRegister|HostUnregister|HostGetDevicePointer)"
        r"|^cuMem(?:Alloc|Free|Create|Release|Map|Unmap|Address|SetAccess|HostAlloc|HostRegister)|MemAlloc|MemFree"
    ),
}  # fmt: skip
"""Kind of call → names (RULES.md, event model); the first that matches, in this order. Everything else is "other"."""
SYNCHRONIZE = re.compile(r"Synchronize")
PAGEABLE_READ = re.compile(r"DtoH.*Pageable")
"""An asynchronous copy into pageable memory returns when the bytes have arrived: it blocks."""


@measure
def host_calls(trace: Trace) -> pd.DataFrame:
    """Every runtime and driver call, in time order.

    Columns: row, name, thread (code), start_ns, end_ns, dur_ns, correlation (0 none), kind (launch, graph_launch, copy,
    memset, blocking, alloc, other), op (row of the innermost op, -1), step (index, -1), work (how many pieces of GPU
    work it launched that are in the trace).
    """
    events = trace.events
    rows = trace.rows(*HOST_CALLS)
    rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
    start, end = events.start_ns[rows], events.ends_at(rows)
    launches = launch_of(trace).values
    work = np.bincount(launches[launches >= 0], minlength=len(events))[rows] if len(events) else rows
    return pd.DataFrame(
        {
            "row": rows.astype(np.int32),
            "name": names_of(trace, rows),
            "thread": events.thread[rows].astype(np.int32),
            "start_ns": start,
            "end_ns": end,
            "dur_ns": end - start,
            "correlation": narrow(events.column("correlation").at(rows, 0)),
            "kind": _kinds(trace, rows),
            "op": op_of_call(trace).at(rows, -1).astype(np.int32),
            "step": step_at(trace, start).astype(np.int32),
            "work": work.astype(np.int32),
        },
        copy=False,
    )


@measure
def launching_threads(trace: Trace) -> list[int]:
    """Codes of the threads that launch GPU work which is in the trace."""
    calls = host_calls(trace)
    return distinct(calls["thread"].to_numpy()[calls["work"].to_numpy() > 0])


@measure
def op_of_call(trace: Trace) -> Column:
    """For all host calls: the row of the innermost op around each, -1 for none.

    By time on the call's own thread; where no op is open there, by External id, unless that is only the correlation
    again, as PyTorch 1.12 to 2.3 wrote it.
    """
    events = trace.events
    rows = trace.rows(*HOST_CALLS)
    found = enclosing_op(trace, events.thread[rows], events.start_ns[rows])
    lost = found < 0
    found[lost] = _by_external_id(trace, rows[lost])
    return Column(rows.astype(np.int32), found.astype(np.int32))


def _by_external_id(trace: Trace, calls: Ints) -> Ints:
    external, found = trace.events.column("External id"), np.full(len(calls), -1)
    wanted = external.at(calls, 0)
    asking = np.flatnonzero((wanted > 0) & (wanted != trace.events.column("correlation").at(calls, 0)))
    if not len(asking):
        return found
    ops = trace.rows("cpu_op")
    ids = external.at(ops, 0)
    there = np.isin(ids, wanted[asking])
    keys, first, count = np.unique(ids[there], return_index=True, return_counts=True)
    if not len(keys):
        return found
    place = np.minimum(np.searchsorted(keys, wanted[asking]), len(keys) - 1)
    certain = (keys[place] == wanted[asking]) & (count[place] == 1)
    found[asking[certain]] = ops[there][first[place[certain]]]
    return found


def _kinds(trace: Trace, rows: Ints) -> pd.Categorical[str]:
    kinds, name = [*KINDS, "other"], trace.events.name[rows]
    by_name = np.zeros(len(trace.events.names), np.int8)
    for code in np.flatnonzero(np.bincount(name)).tolist():
        by_name[code] = kinds.index(_kind(trace.events.names[code]))
    codes = by_name[name]
    codes[_reads_pageable(trace)[rows]] = kinds.index("blocking")
    return words(codes, kinds)


def _kind(name: str) -> str:
    return next((kind for kind, names in KINDS.items() if names.search(name)), "other")


def _reads_pageable(trace: Trace) -> Bools:
    """For every event row: whether it launched a copy from the device into pageable memory."""
    copies = trace.rows_named(PAGEABLE_READ.search, ("gpu_memcpy",))
    launches = launch_of(trace).at(copies, -1)
    mask = np.zeros(len(trace.events), np.bool_)
    mask[launches[launches >= 0]] = True
    return mask


HOST_CALLS_TABLE = Table(name="host-calls", of=host_calls)
