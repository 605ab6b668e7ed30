"""Chains of ops that one kernel could do: which of their time would stay, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures import pointwise_costs
from profiler_doctor.analyzer.measures.element_types import SCALAR_TYPES, width
from profiler_doctor.analyzer.measures.operands import Operand, operands, tensors
from profiler_doctor.analyzer.measures.ops import outermost
from profiler_doctor.analyzer.measures.peaks import device_of, peak_of
from profiler_doctor.analyzer.measures.sequence import sequence
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Ints, Trace, measure


@dataclass(frozen=True)
class Chain:
    """Ops of one thread (event rows, in time order), each of which takes what an earlier one gave."""

    rows: tuple[int, ...]
    casts: tuple[int, ...]
    """Those of the rows that only change the type."""
    dims: tuple[int, ...]
    """The shape that it works on."""
    moved: int
    """Bytes that a single kernel has to read and write at least."""


def in_window(trace: Trace, chains: Sequence[Chain]) -> list[Chain]:
    """The chains all of whose ops start within the judged window."""
    span, start = window(trace), trace.events.start_ns
    if span is None:
        return []
    return [chain for chain in chains if span.start_ns <= start[chain.rows[0]] and start[chain.rows[-1]] < span.end_ns]


def work_of(trace: Trace, chains: Sequence[Chain]) -> pd.DataFrame:
    """The work of the chains: columns row, op (of the chain), chain (its place), dur_ns, cast.

    Kernels where GPU work is linked; else the ops themselves.
    """
    chain_of, cast = np.full(len(trace.events), -1), np.zeros(len(trace.events), np.bool_)
    for place, chain in enumerate(chains):
        chain_of[list(chain.rows)] = place
        cast[list(chain.casts)] = True
    work = linked_work(trace)
    if len(work):
        rows, ops = work["row"].to_numpy(np.int64), called(trace, work["op"].to_numpy(np.int64))
        times = work["dur_ns"].to_numpy(np.int64)
    else:
        rows = ops = np.array([row for chain in chains for row in chain.rows], np.int64)
        times = np.maximum(trace.events.dur_ns[rows], 0)
    mine = np.flatnonzero((ops >= 0) & (chain_of[ops] >= 0)) if len(ops) else np.zeros(0, np.int64)
    own = ops[mine]
    columns = {"row": rows[mine], "op": own, "chain": chain_of[own], "dur_ns": times[mine], "cast": cast[own]}
    return pd.DataFrame(columns)


def called(trace: Trace, rows: Ints) -> Ints:
    """For each op row the op that the program called, -1 where it is not known (see `sequence`)."""
    found = sequence(trace)
    place = np.where(rows >= 0, found.owner[rows], -1)
    return np.where(place >= 0, found.rows[place], -1) if len(found.rows) else np.full(len(rows), -1)


def fusing(trace: Trace, chains: Sequence[Chain]) -> Edit:
    """On a GPU: of each chain one piece of work stays, as long as the longest, or as the bytes need that must be moved.

    What stays is no cast where there is something else: a cast may be another finding's to drop. The ops of the pieces
    that go, go with them.
    """
    work, speed, keep = work_of(trace, chains), bytes_per_s(trace), {}
    order = np.argsort(work["chain"].to_numpy(), kind="stable")
    columns = [work[name].to_numpy()[order] for name in ("chain", "row", "op", "dur_ns", "cast")]
    edges = np.flatnonzero(np.diff(columns[0])) + 1
    for place, rows, ops, times, cast in zip(*(np.split(column, edges) for column in columns), strict=True):
        if not len(place):
            break
        chain = chains[int(place[0])]
        keep.update(dict.fromkeys((*chain.rows, *rows.tolist()), 0.0))
        floor = 1e9 * chain.moved / speed if speed else 0.0
        most = int((times if cast.all() else np.where(cast, 0, times)).argmax())
        keep.pop(int(ops[most]))
        keep[int(rows[most])] = max(float(times.max()), min(floor, float(times.sum()))) / max(int(times[most]), 1)
    return Edit(keep=keep)


@measure
def bytes_per_s(trace: Trace) -> float | None:
    """What the memory of the device that worked moves in a second; None unknown.

    The makers' number for a GPU, a copy measured by our own capture for a CPU.
    """
    work = linked_work(trace)
    if not len(work):
        return trace.facts.copy_bytes_per_s if trace.facts else None
    device = device_of(trace, int(work["device"].iloc[0]))
    peak = peak_of(device) if device else None
    return peak.bytes_per_s if peak else None


def full(trace: Trace, row: int, size: int) -> list[Operand]:
    """The tensors of an op that have `size` elements."""
    return [operand for operand in tensors(trace, row) if operand.size == size]


def in_place(name: str) -> bool:
    """Whether an op of that name writes into a tensor that it was given."""
    return name.endswith("_") and not name.endswith("__")


def result_type(trace: Trace, row: int) -> str:
    """The type of what an op that works element by element gives; "" unknown."""
    name, given = trace.events.name_of(row), operands(trace, row)
    if name in ("aten::to", "aten::_to_copy") and len(given) > 1:
        return SCALAR_TYPES.get(given[1].value, "")
    if name == "aten::type_as" and len(given) > 1:
        return given[1].type
    known = pointwise_costs.work(name, given)
    return known[0] if known else ""


def moved_bytes(trace: Trace, rows: Sequence[int], size: int, reads: int = 1) -> int:
    """What a chain on tensors of `size` elements must move: `reads` tensors in its first op's type, one in its last's.

    Smaller tensors (weights, tables) are left out.
    """
    first = full(trace, rows[0], size)
    read = width(first[0].type) if first else 0
    return size * (reads * (read or 0) + (width(result_type(trace, rows[-1])) or 0))


def described(trace: Trace, chains: Sequence[Chain]) -> dict[str, object]:
    """The numbers of a finding on chains that could be fused: how many, of what, and what they take."""
    span, work = window(trace), work_of(trace, chains)
    longest = max(chains, key=lambda chain: chain.moved)
    return {
        "chains": len(chains),
        "chains_per_step": round(len(chains) / (span.per if span else 1), 3),
        "ops": [trace.events.name_of(row) for row in longest.rows],
        "shape": list(longest.dims),
        "pieces": len(work),
        "time_ns": int(work["dur_ns"].sum()),
        "bytes_at_least": longest.moved,
    }


def stretches(trace: Trace, chains: Sequence[Chain]) -> tuple[tuple[int, int], ...]:
    """Start and end of each chain on its thread, for a finding's places to look at."""
    events = trace.events
    starts = events.start_ns[[chain.rows[0] for chain in chains]].tolist()
    return tuple(zip(starts, events.ends_at([chain.rows[-1] for chain in chains]).tolist(), strict=True))


def enclosing(trace: Trace, rows: Ints, chosen: Ints) -> Ints:
    """For each op row the outermost of the `chosen` op rows that is it or stands around it, -1 for none."""
    mask = np.zeros(len(trace.events), np.bool_)
    mask[chosen] = True
    return outermost(trace, rows, mask)
