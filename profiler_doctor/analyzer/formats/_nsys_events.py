"""The rows of an Nsight Systems export as events: device work, calls, syncs, NVTX ranges."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from profiler_doctor.analyzer.formats._blocks import Slice, Table, block_of
from profiler_doctor.analyzer.formats._nsys_database import KERNELS, Database, process_and_thread
from profiler_doctor.analyzer.formats._times import NEVER

Row = Mapping[str, Any]
CUPTI = "CUPTI_ACTIVITY_KIND_"
COPY_KINDS = ("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH",
              "DtoD")  # fmt: skip
"""Of ENUM_CUDA_MEMCPY_OPER; the last three are the driver's own for managed memory."""
MANAGED = 11
MEMORY_KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
SYNC_KINDS = ("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
VERSION = re.compile(r"(?:_pts[zd])?_v\d{4,}$")
"""Nsight adds the CUDA version that brought a call: cudaLaunchKernel_v7000."""
MARKS, RANGES = {34, 65}, {59, 60, 70, 71}
"""Kinds of NVTX events (ENUM_NSYS_EVENT_TYPE); the others name things."""
TORCH_OP = re.compile(r"^(?P<name>[^,]+)(?P<rest>(?:, (?:seq|op_id) = \d+)*(?:, sizes = \[.*\])?.*)$", re.DOTALL)
SEQUENCE, SIZES = re.compile(r", seq = (\d+)"), re.compile(r", sizes = (\[.*\])", re.DOTALL)


@dataclass(frozen=True)
class Kind:
    """A table, the columns to ask for beside start and end, and how a row becomes (category, slice)."""

    table: str
    columns: tuple[str, ...]
    event: Callable[[Row, Database], tuple[str, Slice]]


def add_events(table: Table, database: Database) -> Counter[str]:
    """Append every event that is read; the counter says what is peculiar: `open` ranges, whole `graphs`."""
    seen: Counter[str] = Counter()
    for kind in KINDS:
        wanted = ("start", "end", *kind.columns)
        for batch in database.batches(kind.table, wanted):
            rows = (dict(zip(wanted, row, strict=True)) for row in batch)
            _add(table, (kind.event(row, database) for row in rows), seen)
    return seen


def _add(table: Table, found: Iterator[tuple[str, Slice]], seen: Counter[str]) -> None:
    grouped: dict[str, list[Slice]] = {}
    for category, slice_ in found:
        grouped.setdefault(category, []).append(slice_)
    for category, slices in grouped.items():
        if not category:
            continue
        instant = category in ("nvtx_mark", "nvtx_open")
        seen["open"] += len(slices) if category == "nvtx_open" else 0
        seen["graphs"] += sum("graph id" in slice_.arguments and "grid" not in slice_.arguments for slice_ in slices)
        table.add(block_of("user_annotation" if instant else category, slices, "i" if instant else "X"))


def _times(row: Row) -> tuple[int, int]:
    start, end = row["start"], row["end"]
    return (start, end) if isinstance(start, int) and isinstance(end, int) else (NEVER, NEVER)


def _on_device(row: Row, database: Database, name: str, arguments: Mapping[str, object]) -> Slice:
    process = process_and_thread(row["globalPid"])[0]
    device, stream = database.device(row["deviceId"], process), row["streamId"]
    stream = stream if isinstance(stream, int) else 0
    place = {"device": device, "stream": stream, "context": row["contextId"]}
    linked = {"correlation": database.correlation(row["correlationId"], process)}
    return Slice(name, (device, stream), *_times(row), {**place, **linked, **arguments})


def _kernel(row: Row, database: Database) -> tuple[str, Slice]:
    name = database.text(row["demangledName"], row["shortName"], row["mangledName"], row["name"])
    shared = [row[kind] for kind in ("staticSharedMemory", "dynamicSharedMemory") if isinstance(row[kind], int)]
    arguments = {
        "grid": _three(row, "grid"),
        "block": _three(row, "block"),
        "registers per thread": row["registersPerThread"],
        "shared memory": sum(shared) if shared else None,
        "graph node id": row["graphNodeId"] or None,
    }
    return "kernel", _on_device(row, database, name, arguments)


def _graph(row: Row, database: Database) -> tuple[str, Slice]:
    return "kernel", _on_device(row, database, f"CUDA graph {row['graphId']}", {"graph id": row["graphId"] or 0})


def _copy(row: Row, database: Database) -> tuple[str, Slice]:
    kind = row["copyKind"]
    name = f"Memcpy {_of(COPY_KINDS, kind)}"
    if isinstance(row["srcKind"], int) and isinstance(row["dstKind"], int):
        name += f" ({_of(MEMORY_KINDS, row['srcKind'])} -> {_of(MEMORY_KINDS, row['dstKind'])})"
    managed = {"managed memory": 1} if isinstance(kind, int) and kind >= MANAGED else {}
    return "gpu_memcpy", _on_device(row, database, name, {"bytes": row["bytes"], **managed})


def _fill(row: Row, database: Database) -> tuple[str, Slice]:
    kind = row["memKind"]
    name = f"Memset ({_of(MEMORY_KINDS, kind)})" if isinstance(kind, int) else "Memset"
    return "gpu_memset", _on_device(row, database, name, {"bytes": row["bytes"]})


def _sync(row: Row, database: Database) -> tuple[str, Slice]:
    return "cuda_sync", _on_device(row, database, _of(SYNC_KINDS, row["syncType"]), {})


def _call(row: Row, database: Database) -> tuple[str, Slice]:
    thread = process_and_thread(row["globalTid"])
    name = database.text(row["nameId"], row["name"])
    runtime = name.startswith("cuda") or not name.startswith("cu")
    arguments = {
        "correlation": database.correlation(row["correlationId"], thread[0]),
        "return value": row["returnValue"] or None,
    }
    return "cuda_runtime" if runtime else "cuda_driver", Slice(VERSION.sub("", name), thread, *_times(row), arguments)


def _overhead(row: Row, database: Database) -> tuple[str, Slice]:
    return "overhead", Slice(database.text(row["nameId"]), process_and_thread(row["globalTid"]), *_times(row), {})


def _range(row: Row, database: Database) -> tuple[str, Slice]:
    """An NVTX event; ranges that torch.autograd.profiler.emit_nvtx opened around ops are ops."""
    kind, start, end = row["eventType"], row["start"], row["end"]
    thread, text = process_and_thread(row["globalTid"]), database.text(row["text"], row["textId"])
    if not isinstance(start, int) or (kind is not None and kind not in MARKS | RANGES):
        return "", Slice(text, thread, NEVER, NEVER, {})
    if kind in MARKS or not isinstance(end, int) or end < start:  # schema 2 writes 0 for what is missing
        category = "nvtx_mark" if kind in MARKS else "nvtx_open"
        return category, Slice(text, thread, start, start, {})
    return _named_range(text, thread, (start, end))


def _named_range(text: str, thread: tuple[int, int], times: tuple[int, int]) -> tuple[str, Slice]:
    found = TORCH_OP.match(text)
    rest = found["rest"] if found else ""
    if found is None or not (text.startswith("aten::") or rest.startswith((", seq = ", ", op_id = "))):
        return "user_annotation", Slice(text, thread, *times, {})
    sequence, sizes = SEQUENCE.search(rest), SIZES.search(rest)
    arguments = {
        "Sequence number": int(sequence[1]) if sequence else None,
        "Input Dims": sizes[1] if sizes else None,
        "Written name": text if rest else None,
    }
    return "cpu_op", Slice(found["name"], thread, *times, arguments)


def _three(row: Row, what: str) -> str | None:
    sizes = [row[f"{what}{axis}"] for axis in "XYZ"]
    return json.dumps(sizes) if all(isinstance(size, int) for size in sizes) else None


def _of(names: tuple[str, ...], number: object) -> str:
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else "Unknown"


PLACE = ("globalPid", "deviceId", "contextId", "streamId", "correlationId")
SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory",
         "registersPerThread", "graphNodeId")  # fmt: skip
KINDS = (
    Kind("PROFILER_OVERHEAD", ("globalTid", "nameId"), _overhead),
    Kind(f"{CUPTI}RUNTIME", ("globalTid", "correlationId", "nameId", "name", "returnValue"), _call),
    Kind(KERNELS, (*PLACE, *SHAPE, "demangledName", "shortName", "mangledName", "name"), _kernel),
    Kind(f"{CUPTI}GRAPH_TRACE", (*PLACE, "graphId"), _graph),
    Kind(f"{CUPTI}MEMCPY", (*PLACE, "bytes", "copyKind", "srcKind", "dstKind"), _copy),
    Kind(f"{CUPTI}MEMSET", (*PLACE, "bytes", "memKind"), _fill),
    Kind(f"{CUPTI}SYNCHRONIZATION", (*PLACE, "syncType"), _sync),
    Kind("NVTX_EVENTS", ("globalTid", "eventType", "text", "textId"), _range),
)
