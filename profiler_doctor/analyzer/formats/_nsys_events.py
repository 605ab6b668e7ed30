"""The rows of an Nsight Systems export as events: device work, calls, syncs, NVTX ranges."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiler_doctor.analyzer.formats._blocks import Block, Table, Words
from profiler_doctor.analyzer.formats._nsys_database import ID_MASK, KERNELS, Batch, Database, processes
from profiler_doctor.analyzer.formats._times import NEVER
from profiler_doctor.analyzer.formats._values import Values
from profiler_doctor.analyzer.trace import Column, Ints, interned

CUPTI = "CUPTI_ACTIVITY_KIND_"
COPY_KINDS = ("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH",
              "DtoD")  # fmt: skip
"""Of ENUM_CUDA_MEMCPY_OPER; the last three are the driver's own for managed memory."""
MEMORY_KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
SYNC_KINDS = ("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
VERSION = re.compile(r"(?:_pts[zd])?_v\d{4,}$")
"""Nsight adds the CUDA version that brought a call: cudaLaunchKernel_v7000."""
MARKS, RANGES, UNKNOWN = (34, 65), (59, 60, 70, 71), -1
"""Kinds of NVTX events (ENUM_NSYS_EVENT_TYPE); the others name things. An export without kinds has ranges alone."""
OPEN = "nvtx_open"
"""Ranges that were never closed, until they are counted; then they are annotations like others."""
DRIVER = re.compile(r"cu(?!da)")
TORCH_OP = re.compile(r"^(?P<name>[^,]+)(?P<rest>(?:, (?:seq|op_id) = \d+)*(?:, sizes = \[.*\])?.*)$", re.DOTALL)
SEQUENCE, SIZES = re.compile(r", seq = (\d+)"), re.compile(r", sizes = (\[.*\])", re.DOTALL)


@dataclass(frozen=True)
class Kind:
    """A table, the columns to ask for beside start and end, and how a batch of its rows becomes blocks of events."""

    table: str
    columns: tuple[str, ...]
    blocks: Callable[[Batch, Database], Iterator[Block]]


def add_events(table: Table, database: Database) -> Counter[str]:
    """Append every event that is read; the counter says what is peculiar: `open` ranges, whole `graphs`."""
    seen: Counter[str] = Counter()
    for kind in KINDS:
        for batch in database.batches(kind.table, ("start", "end", *kind.columns)):
            for block in kind.blocks(batch, database):
                is_open = block.category == OPEN
                table.add(replace(block, category="user_annotation") if is_open else block)
                seen["open"] += len(block.start_ns) if is_open else 0
                seen["graphs"] += batch.length if kind.table == GRAPHS else 0
    return seen


def _work(category: str, batch: Batch, database: Database, names: Words, **more: Column) -> Block:
    """Work on a device; `more` are arguments with _ for a blank."""
    process = processes(batch.ints("globalPid"))
    device, stream = database.devices(batch.ints("deviceId"), process), batch.ints("streamId")
    rows = np.arange(batch.length)
    places, thread = np.unique(np.column_stack((device, stream)), axis=0, return_inverse=True)
    return Block(
        category=category,
        names=names,
        threads=[(int(device), int(stream)) for device, stream in places],
        thread=thread.reshape(-1).astype(np.int32),
        start_ns=batch.ints("start", NEVER),
        end_ns=batch.ints("end", NEVER),
        arguments={
            "device": Column(rows, device, None),
            "stream": Column(rows, stream, None),
            "context": batch.numbers("contextId"),
            "correlation": database.correlation(batch.ints("correlationId"), process),
            **{name.replace("_", " "): column for name, column in more.items()},
        },
    )


def _host(category: str, batch: Batch, names: Words, **arguments: Column) -> Block:
    """What a thread of the host did."""
    ids, thread = np.unique(batch.ints("globalTid"), return_inverse=True)
    pairs = zip(processes(ids).tolist(), (ids & ID_MASK).tolist(), strict=True)
    return Block(
        category=category,
        names=names,
        threads=list(pairs),
        thread=thread.astype(np.int32),
        start_ns=batch.ints("start", NEVER),
        end_ns=batch.ints("end", NEVER),
        arguments=arguments,
    )


def _kernels(batch: Batch, database: Database) -> Iterator[Block]:
    names = batch.of_each(("demangledName", "shortName", "mangledName", "name"), database.text)
    yield _work(
        "kernel",
        batch,
        database,
        names,
        grid=_texts(batch.of_each(("gridX", "gridY", "gridZ"), _three)),
        block=_texts(batch.of_each(("blockX", "blockY", "blockZ"), _three)),
        registers_per_thread=batch.numbers("registersPerThread"),
        shared_memory=_sum(batch.numbers("staticSharedMemory"), batch.ints("dynamicSharedMemory")),
        graph_node_id=batch.numbers("graphNodeId", zero=False),
    )


def _graphs(batch: Batch, database: Database) -> Iterator[Block]:
    names = batch.of_each(("graphId",), lambda graph: f"CUDA graph {graph}")
    yield _work("kernel", batch, database, names, graph_id=batch.numbers("graphId"))


def _copies(batch: Batch, database: Database) -> Iterator[Block]:
    names = batch.of_each(("copyKind", "srcKind", "dstKind"), _copy_name)
    yield _work("gpu_memcpy", batch, database, names, bytes=batch.numbers("bytes"))


def _fills(batch: Batch, database: Database) -> Iterator[Block]:
    names = batch.of_each(
        ("memKind",), lambda kind: "Memset" if kind is None else f"Memset ({_of(MEMORY_KINDS, kind)})"
    )
    yield _work("gpu_memset", batch, database, names, bytes=batch.numbers("bytes"))


def _syncs(batch: Batch, database: Database) -> Iterator[Block]:
    yield _work("cuda_sync", batch, database, batch.of_each(("syncType",), lambda kind: _of(SYNC_KINDS, kind)))


def _calls(batch: Batch, database: Database) -> Iterator[Block]:
    names = batch.of_each(("nameId", "name"), lambda *names: VERSION.sub("", database.text(*names)))
    correlation = database.correlation(batch.ints("correlationId"), processes(batch.ints("globalTid")))
    arguments = {"correlation": correlation, "return value": batch.numbers("returnValue", zero=False)}
    block = _host("cuda_runtime", batch, names, **arguments)
    driver = np.array([DRIVER.match(name) is not None for name in names[1]], np.bool_)[names[0]]
    yield block.where(~driver)
    yield replace(block, category="cuda_driver").where(driver)


def _overhead(batch: Batch, database: Database) -> Iterator[Block]:
    yield _host("overhead", batch, batch.of_each(("nameId",), database.text))


def _ranges(batch: Batch, database: Database) -> Iterator[Block]:
    """NVTX events; ranges that torch.autograd.profiler.emit_nvtx opened around ops are ops."""
    written = batch.of_each(("text", "textId"), database.text)
    kind, start, end = batch.ints("eventType", UNKNOWN), batch.ints("start", NEVER), batch.ints("end", -NEVER)
    block = replace(_host("user_annotation", batch, written), end_ns=end)
    mark, event = np.isin(kind, MARKS), np.isin(kind, (UNKNOWN, *MARKS, *RANGES)) & (start < NEVER)
    unended = event & (mark | (end < start))  # schema 2 writes 0 for what is missing
    instant = replace(block, phase="i", end_ns=start)
    yield instant.where(unended & mark)
    yield replace(instant, category=OPEN).where(unended & ~mark)
    ops = [_torch_op(text) for text in written[1]]
    is_op = np.array([bool(op) for op in ops], np.bool_)[written[0]]
    yield block.where(event & ~unended & ~is_op)
    yield _as_ops(block, ops).where(event & ~unended & is_op)


def _as_ops(block: Block, ops: Sequence[Mapping[str, object]]) -> Block:
    """Ranges as ops, named and described by what their texts say."""
    codes = block.names[0]
    names, table = interned([str(op.get("name", "")) for op in ops])
    arguments: dict[str, Values] = {}
    for name in ("Sequence number", "Input Dims", "Written name"):
        having = [code for code, op in enumerate(ops) if name in op]
        rows = np.flatnonzero(np.isin(codes, having))
        arguments[name] = Values()
        arguments[name].add_mixed(rows.tolist(), [ops[code][name] for code in codes[rows].tolist()])
    columns = {name: values.column() for name, values in arguments.items()}
    return replace(block, category="cpu_op", names=(names[codes], table), arguments=columns)


def _torch_op(text: str) -> Mapping[str, object]:
    """Name and arguments of an op whose range torch opened; empty for any other range."""
    found = TORCH_OP.match(text)
    rest = found["rest"] if found else ""
    if found is None or not (text.startswith("aten::") or rest.startswith((", seq = ", ", op_id = "))):
        return {}
    sequence, sizes = SEQUENCE.search(rest), SIZES.search(rest)
    written = {"Sequence number": int(sequence[1])} if sequence else {}
    dims = {"Input Dims": sizes[1]} if sizes else {}
    return {"name": found["name"], **written, **dims, **({"Written name": text} if rest else {})}


def _copy_name(kind: object, source: object, target: object) -> str:
    memories = f" ({_of(MEMORY_KINDS, source)} -> {_of(MEMORY_KINDS, target)})" if source is not None else ""
    return f"Memcpy {_of(COPY_KINDS, kind)}{memories}"


def _three(*sizes: object) -> str:
    return json.dumps(sizes) if all(isinstance(size, int) for size in sizes) else ""


def _texts(words: Words) -> Column:
    """A text argument, absent where it is empty."""
    filled = np.array([bool(text) for text in words[1]], np.bool_)[words[0]]
    return Column(np.flatnonzero(filled), words[0][filled], words[1])


def _sum(column: Column, more: Ints) -> Column:
    return Column(column.rows, column.values + more[column.rows], None)


def _of(names: tuple[str, ...], number: object) -> str:
    return names[number] if isinstance(number, int) and 0 <= number < len(names) else "Unknown"


PLACE = ("globalPid", "deviceId", "contextId", "streamId", "correlationId")
SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory",
         "registersPerThread", "graphNodeId")  # fmt: skip
GRAPHS = f"{CUPTI}GRAPH_TRACE"
KINDS = (
    Kind("PROFILER_OVERHEAD", ("globalTid", "nameId"), _overhead),
    Kind(f"{CUPTI}RUNTIME", ("globalTid", "correlationId", "nameId", "name", "returnValue"), _calls),
    Kind(KERNELS, (*PLACE, *SHAPE, "demangledName", "shortName", "mangledName", "name"), _kernels),
    Kind(GRAPHS, (*PLACE, "graphId"), _graphs),
    Kind(f"{CUPTI}MEMCPY", (*PLACE, "bytes", "copyKind", "srcKind", "dstKind"), _copies),
    Kind(f"{CUPTI}MEMSET", (*PLACE, "bytes", "memKind"), _fills),
    Kind(f"{CUPTI}SYNCHRONIZATION", (*PLACE, "syncType"), _syncs),
    Kind("NVTX_EVENTS", ("globalTid", "eventType", "text", "textId"), _ranges),
)
