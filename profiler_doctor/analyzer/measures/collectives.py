"""Communication between ranks: which collectives ran, how large they were, and how much of them nothing else hid."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.collective_sizes import sizes
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, union, without
from profiler_doctor.analyzer.measures.steps import step_at
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

COMMUNICATES = re.compile(
    r"(?i:nccl|rccl|mscclpp|nvshmem|multimem|cross_device_reduce|deep_?ep(?![a-z]))"
    r"|(?:(?<![A-Za-z])a|A)ll_?(?:[Rr]educe|[Gg]ather|[Tt]o_?[Aa]ll)|ALL_?(?:REDUCE|GATHER|TO_?ALL)"
    r"|(?:(?<![A-Za-z])r|R)educe_?[Ss]catter|REDUCE_?SCATTER"
)
"""Kernels that move data between devices (RULES.md, DST001). "nccl" alone would miss most of what serving engines
use; a plain all_gather without a border would take `small_gather` for one."""
HOST_MARK = re.compile(r"^(?:gloo|mpi|ucc):")
"""How torch marks a collective that a CPU backend runs."""
KINDS = {
    "all_reduce": re.compile(r"all_?reduce|cross_device_reduce", re.IGNORECASE),
    "reduce_scatter": re.compile(r"reduce_?scatter", re.IGNORECASE),
    "all_gather": re.compile(r"all_?gather", re.IGNORECASE),
    "all_to_all": re.compile(r"all_?to_?all|deep_?ep", re.IGNORECASE),
    "broadcast": re.compile(r"broadcast", re.IGNORECASE),
    "send_recv": re.compile(r"send_?recv|(?<![a-z])(?:send|recv)(?![a-z])", re.IGNORECASE),
    "reduce": re.compile(r"reduce", re.IGNORECASE),
    "gather": re.compile(r"gather", re.IGNORECASE),
    "scatter": re.compile(r"scatter", re.IGNORECASE),
    "barrier": re.compile(r"barrier", re.IGNORECASE),
}
"""What is done → its name in kernels and in arguments; the first that matches, in this order."""
COLUMNS = ("row", "name", "kind", "device", "stream", "start_ns", "end_ns", "dur_ns", "exposed_ns", "op", "step")


@measure
def collectives(trace: Trace) -> pd.DataFrame:
    """Every collective, sorted by start: kernels on a device, or the marks of a CPU backend (gloo, mpi, ucc).

    Columns: row, name, kind (all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv, …; "" unknown),
    device and stream (-1 for one that a CPU runs), start_ns, end_ns, dur_ns, exposed_ns (its time during which no
    other kernel ran on the device; on a CPU, during which no op ran on another thread), op (row of the op that
    launched it, -1), step (-1), bytes (of the larger of its two buffers, -1 unknown), group_size (ranks, -1 unknown).
    Its duration holds the waiting for other ranks: one rank's trace cannot tell that from the transfer.
    """
    table = pd.concat((_on_devices(trace), _on_hosts(trace)), ignore_index=True)
    table = table.sort_values("start_ns", kind="stable", ignore_index=True)
    found = sizes(trace, table["row"].to_numpy(np.int64), table["op"].to_numpy(np.int64))
    table["bytes"], table["group_size"] = found.bytes, found.ranks
    table["kind"] = [kind_of(word) or kind_of(name) for name, word in zip(table["name"], found.words, strict=True)]
    return table


@measure
def collectives_by_kind(trace: Trace) -> pd.DataFrame:
    """One row per kind, name and group size, the longest first.

    Columns: kind, name, group_size, count, bytes (sum of those known), time_ns (sum), exposed_ns (sum). Where
    collectives run side by side the sums count that time for each of them; `communication` has it once.
    """
    table = collectives(trace).assign(bytes=lambda found: found["bytes"].clip(lower=0))
    grouped = table.groupby(["kind", "name", "group_size"], sort=True)
    found = grouped.agg(
        count=("row", "size"), bytes=("bytes", "sum"), time_ns=("dur_ns", "sum"), exposed_ns=("exposed_ns", "sum")
    )
    return found.reset_index().sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


@measure
def communication(trace: Trace) -> pd.DataFrame:
    """One row per device (-1: the CPU's own): how long it communicated, each moment counted once.

    Columns: device, collectives (how many), communication_ns (the union of their intervals), exposed_ns (the part of
    it during which no other kernel ran on the device; on a CPU, no op on another thread).
    """
    table = collectives(trace)
    found = []
    for device, group in table.groupby("device", sort=True):
        talk = union(group["start_ns"].to_numpy(), group["end_ns"].to_numpy())
        alone = without(talk, _work_beside(trace, int(str(device)), group)).total_ns
        found.append((int(str(device)), len(group), talk.total_ns, alone))
    return pd.DataFrame(found, columns=["device", "collectives", "communication_ns", "exposed_ns"]).astype("int64")


def kind_of(text: str) -> str:
    """What a collective does, by its kernel's name or its argument; "" where neither tells."""
    return next((kind for kind, names in KINDS.items() if names.search(text)), "")


def _on_devices(trace: Trace) -> pd.DataFrame:
    work = gpu_work(trace)
    rows = work["row"].to_numpy(np.int64)
    talks = _talks(trace)[trace.events.name[rows]]
    table: pd.DataFrame = work[talks & (work["kind"] == "kernel").to_numpy()].copy()
    table["exposed_ns"] = 0
    for device, group in table.groupby("device"):
        table.loc[group.index, "exposed_ns"] = _exposed(group, _work_beside(trace, int(str(device)), group))
    return table.loc[:, list(COLUMNS)].astype({"name": str, "kind": str})


def _on_hosts(trace: Trace) -> pd.DataFrame:
    events = trace.events
    rows = trace.rows_named(HOST_MARK.search, ("user_annotation", "cpu_op"))
    start, end = events.start_ns[rows], events.ends_at(rows)
    table = pd.DataFrame(
        {
            "row": rows,
            "name": events.names_at(rows),
            "kind": "",
            "device": np.full(len(rows), -1),
            "stream": np.full(len(rows), -1),
            "start_ns": start,
            "end_ns": end,
            "dur_ns": end - start,
            "exposed_ns": end - start,
            "op": rows,
            "step": step_at(trace, start),
        }
    )
    for _, group in table.groupby(events.thread[rows]):
        table.loc[group.index, "exposed_ns"] = _exposed(group, _work_beside(trace, -1, group))
    return table


@measure
def _talks(trace: Trace) -> Bools:
    """For every name code whether it is that of a kernel that communicates; names of other events are not looked at."""
    found = np.zeros(len(trace.events.names), np.bool_)
    for code in np.unique(trace.events.name[trace.rows("kernel")]).tolist():
        found[code] = COMMUNICATES.search(trace.events.names[code]) is not None
    return found


def _exposed(group: pd.DataFrame, cover: Intervals) -> Ints:
    parts = Intervals(group["start_ns"].to_numpy(), group["end_ns"].to_numpy(), np.arange(len(group)))
    return group["dur_ns"].to_numpy(np.int64) - covered_ns(parts, cover, len(group))


def _work_beside(trace: Trace, device: int, group: pd.DataFrame) -> Intervals:
    """When something other than communication ran: other kernels on the device, ops on the other threads."""
    if device < 0:
        threads = trace.events.thread[group["row"].to_numpy(np.int64)]
        rows = trace.rows("cpu_op")
        rows = rows[~np.isin(trace.events.thread[rows], threads)]
        return union(trace.events.start_ns[rows], trace.events.ends_at(rows))
    return other_kernels(trace, device)


@measure
def other_kernels(trace: Trace, device: int) -> Intervals:
    """When kernels ran on the device that do not communicate."""
    work = gpu_work(trace)
    talks = _talks(trace)[trace.events.name[work["row"].to_numpy()]]
    there = (work["kind"] == "kernel").to_numpy() & (work["device"] == device).to_numpy() & ~talks
    return union(work["start_ns"].to_numpy()[there], work["end_ns"].to_numpy()[there])


COLLECTIVES = Table(name="collectives", of=collectives)
BY_KIND = Table(name="collectives-by-kind", of=collectives_by_kind)
COMMUNICATION = Table(name="communication", of=communication)
