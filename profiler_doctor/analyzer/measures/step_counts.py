"""What each step does, in whole numbers that no clock has a part in."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.measures.convolutions import convolutions, is_nchw
from profiler_doctor.analyzer.measures.copies import copies
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.memory import memory
from profiler_doctor.analyzer.measures.moves import moves
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.roofline import op_costs
from profiler_doctor.analyzer.measures.steps import step_of, steps
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

Digests = npt.NDArray[np.uint64]
SIGNATURE = ("Input Dims", "Input type", "Input Strides")
"""What an op was called with, without the values of its numbers: a learning rate may change in every step."""
READS = "aten::_local_scalar_dense"
"""What `.item()`, `float(tensor)` and `if tensor:` end in."""
DIRECTIONS = ("HtoD", "DtoH", "DtoD")
"""Of copies between memories; all others are counted together."""
OURS = "profiler::"
"""The ops by which ranges are opened and closed."""


@measure
def step_counts(trace: Trace) -> pd.DataFrame:
    """One row per marked step; without marks one row for the whole recording.

    Columns, all whole numbers: ops, item_calls, flops (of products and convolutions whose shapes tell), operand_bytes
    (what those and element-wise ops read and write at least), copied_bytes (by `aten::copy_`, the host's and the
    device's), casts and layout_transforms (copies that change the type, the order of dimensions in memory),
    nchw_convolutions (forward, input channel by channel), allocations, allocated_bytes, kept_bytes (allocated and not
    given back), peak_bytes (most given out at once beyond what was there when the step began, all devices added up),
    launches, graph_launches, kernels, syncs (blocking calls), and the bytes that a device copied between memories:
    copied_bytes_HtoD, copied_bytes_DtoH, copied_bytes_DtoD, copied_bytes_other.
    """
    count = max(len(steps(trace)), 1)
    found = {**_op_counts(trace, count), **_memory_counts(trace, count), **_device_counts(trace, count)}
    return pd.DataFrame(found)


@measure
def step_hashes(trace: Trace) -> pd.DataFrame:
    """One row per step as in `step_counts`: what tells whether two steps do the very same.

    Columns: op_sequence (of the names of the ops in order), op_signature (of the names, shapes, types and strides in
    order). The step's own thread comes first; the others follow in the order of their own hashes.
    """
    table = counted_ops(trace)
    rows = table["row"].to_numpy(np.int64)
    names = trace.events.name[rows].astype(np.int64)
    columns = [trace.events.text(argument) for argument in SIGNATURE]
    codes = np.stack([names, *(column.at(rows, -1) for column in columns)])
    texts = [trace.events.names, *(column.table or () for column in columns)]
    each = {
        "op_sequence": _digests(codes[:1], texts[:1]),
        "op_signature": _digests(codes, texts),
    }
    thread, step = table["thread"].to_numpy(np.int64), table["step"].to_numpy(np.int64)
    main = _main_thread(trace, thread)
    return pd.DataFrame(
        {
            name: [_of_step(digests, thread, step == number, main) for number in range(max(len(steps(trace)), 1))]
            for name, digests in each.items()
        }
    )


@measure
def counted_ops(trace: Trace) -> pd.DataFrame:
    """The cpu_ops inside steps (all of them where no steps are marked) by thread and start; columns as in `ops`."""
    table = ops(trace)
    table = table[table["is_op"] & ~table["name"].astype(str).str.startswith(OURS)]
    if len(steps(trace)):
        return table[table["step"] >= 0]
    return table.assign(step=np.zeros(len(table), np.int32))


def _op_counts(trace: Trace, count: int) -> dict[str, Ints]:
    table = counted_ops(trace)
    step = table["step"].to_numpy(np.int64)
    place = np.full(len(trace.events), -1)
    place[table["row"].to_numpy(np.int64)] = step
    costs, moved = op_costs(trace), moves(trace)
    products = costs[costs["kind"] != "pointwise"]
    nchw = np.array([found.row for found in convolutions(trace) if found.forward and is_nchw(found.input)], np.int64)
    return {
        "ops": _summed(step, np.ones(len(step), np.int64), count),
        "item_calls": _summed(step, np.asarray(table["name"] == READS, np.int64), count),
        "flops": _at(place, products["row"], products["flops"], count),
        "operand_bytes": _at(place, costs["row"], costs["bytes"], count),
        "copied_bytes": _at(place, moved["row"], moved["bytes"], count),
        "casts": _at(place, moved["row"], moved["cast"], count),
        "layout_transforms": _at(place, moved["row"], moved["transform"], count),
        "nchw_convolutions": _at(place, nchw, np.ones(len(nchw), np.int64), count),
    }


def _memory_counts(trace: Trace, count: int) -> dict[str, Ints]:
    table = memory(trace)
    step = table["step"].to_numpy(np.int64) if len(steps(trace)) else np.zeros(len(table), np.int64)
    size = table["bytes"].to_numpy(np.int64)
    peaks = np.zeros(count, np.int64)
    for device in table["device"].unique().tolist():
        for number in range(count):
            sizes = size[np.asarray(table["device"] == device) & (step == number)]
            peaks[number] += max(int(np.cumsum(sizes).max()), 0) if len(sizes) else 0
    return {
        "allocations": _summed(step, (size > 0).astype(np.int64), count),
        "allocated_bytes": _summed(step, np.maximum(size, 0), count),
        "kept_bytes": np.maximum(_summed(step, size, count), 0),
        "peak_bytes": peaks,
    }


def _device_counts(trace: Trace, count: int) -> dict[str, Ints]:
    calls, work, between = host_calls(trace), gpu_work(trace), copies(trace)
    found = {}
    for name, kind in (("launches", "launch"), ("graph_launches", "graph_launch"), ("syncs", "blocking")):
        chosen = calls[calls["kind"] == kind]
        found[name] = _at_rows(trace, chosen["row"], np.ones(len(chosen), np.int64), count)
    kernels = work[work["kind"] == "kernel"]
    found["kernels"] = _at_rows(trace, kernels["row"], np.ones(len(kernels), np.int64), count)
    kinds = between["direction"].where(between["direction"].isin(DIRECTIONS), "other")
    for direction in (*DIRECTIONS, "other"):
        part = between[kinds == direction]
        sizes = part["bytes"].clip(lower=0)
        found[f"copied_bytes_{direction}"] = _at_rows(trace, part["row"], sizes, count)
    return found


def _at_rows(trace: Trace, rows: pd.Series[int], values: object, count: int) -> Ints:
    """As `_at`, for host calls and GPU work, which belong to the step that launched them."""
    events = np.asarray(rows, np.int64)
    step = step_of(trace, events) if len(steps(trace)) else np.zeros(len(events), np.int64)
    return _summed(step, np.asarray(values, np.int64), count)


def _at(place: Ints, rows: object, values: object, count: int) -> Ints:
    return _summed(place[np.asarray(rows, np.int64)], np.asarray(values, np.int64), count)


def _summed(step: Ints, values: Ints, count: int) -> Ints:
    """The sum of the values of each step; step -1 counts nowhere. In integers: no sum is rounded."""
    sums = np.zeros(count, np.int64)
    inside = (step >= 0) & (step < count)
    np.add.at(sums, step[inside], values[inside])
    return sums


def _main_thread(trace: Trace, threads: Ints) -> int:
    marks = steps(trace)
    if len(marks):
        return int(marks["thread"].iloc[0])
    return int(np.bincount(threads).argmax()) if len(threads) else -1


def _digests(codes: Ints, texts: list[tuple[str, ...]]) -> Digests:
    """A number for each column of codes that depends on the texts behind them alone."""
    if not codes.size:
        return np.empty(0, np.uint64)
    distinct, same = np.unique(codes, axis=1, return_inverse=True)
    hashed = [
        hashlib.blake2b(
            "\0".join(text[code] if code >= 0 else "" for text, code in zip(texts, column, strict=True)).encode(
                "utf-8", "surrogatepass"
            ),
            digest_size=8,
        ).digest()
        for column in distinct.T.tolist()
    ]
    numbers: Digests = np.frombuffer(b"".join(hashed), np.uint64)[same.reshape(-1)]
    return numbers


def _of_step(digests: Digests, thread: Ints, inside: Bools, main: int) -> str:
    parts = {code: _hash(digests[inside & (thread == code)]) for code in set(thread[inside].tolist())}
    first = parts.pop(main, "")
    return hashlib.blake2b("".join([first, *sorted(parts.values())]).encode(), digest_size=8).hexdigest()


def _hash(digests: Digests) -> str:
    return hashlib.blake2b(digests.tobytes(), digest_size=8).hexdigest()


STEP_COUNTS = Table(name="step-counts", of=step_counts)
