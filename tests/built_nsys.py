"""Exports of Nsight Systems, built small from the documented schemas 2 and 3; times are nanoseconds, ids made up."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

Tables = Mapping[str, tuple[str, Sequence[Sequence[object]]]]
"""Table → its columns as SQL, and its rows."""
VIRTUAL_MACHINE = 1 << 48
"""The bits above the process id in Nsight's global ids."""
FIRST, SECOND = VIRTUAL_MACHINE | 100 << 24, VIRTUAL_MACHINE | 200 << 24
"""Global ids of the processes 100 and 200."""
PLACE = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT"
STRINGS: Tables = {
    "StringIds": (
        "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
        [
            (1, "cudaLaunchKernel_v7000"), (2, "cudaMemcpyAsync_v3020"), (3, "cudaDeviceSynchronize_v3020"),
            (4, "gemm"), (5, "void gemm<float>(float*)"), (6, "relu"), (7, "void relu<float>(float*)"),
            (8, "cuLaunchKernel"), (9, "ProfilerStep#1"),
        ],
    )
}  # fmt: skip
SCHEMA_2: Tables = {
    **STRINGS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INT, end INT, globalTid INT, correlationId INT, nameId INT, returnValue INT, callchainId INT",
        [
            (1000, 1200, FIRST | 101, 11, 1, 0, 0),
            (1300, 1500, FIRST | 101, 12, 2, 0, 0),
            (1600, 1700, FIRST | 101, 13, 8, 0, 0),
            (2000, 9000, FIRST | 101, 15, 3, 0, 0),
        ],
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{PLACE}, demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, "
        "blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT",
        [
            (3000, 5000, 0, 1, 7, 11, FIRST, 5, 4, 32, 8, 1, 1, 128, 1, 1, 100, 24),
            (4500, 6000, 0, 1, 8, 13, FIRST, 7, 6, 16, 1, 1, 1, 64, 2, 1, 0, 0),
        ],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"{PLACE}, bytes INT, copyKind INT, srcKind INT, dstKind INT",
        [(2500, 3500, 0, 1, 7, 12, FIRST, 4096, 1, 1, 2)],
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        f"{PLACE}, value INT, bytes INT, memKind INT",
        [(7000, 7100, 0, 1, 7, 14, FIRST, 0, 64, 2)],
    ),
    "NVTX_EVENTS": (
        "start INT, end INT, eventType INT, rangeId INT, text TEXT, globalTid INT",
        [
            (500, 9500, 59, 0, "ProfilerStep#1", FIRST | 101),
            (900, 1250, 59, 0, "aten::mm, seq = 7, op_id = 3, sizes = [[2, 3], [3, 4]]", FIRST | 101),
            (950, 0, 34, 0, "here", FIRST | 101),
            (960, 0, 59, 0, "left open", FIRST | 101),
            (0, 0, 75, 0, "a domain", FIRST | 101),
        ],
    ),
    "TARGET_INFO_GPU": ("id INT, name TEXT", [(0, "Quadro RTX 6000")]),
    "SCHED_EVENTS": ("id INT, start INT, cpu INT", [(1, 10, 0), (2, 20, 1), (3, 30, 0)]),
}
"""Of 2021: no enums, nothing NULL, NVTX texts in place, calls without a class.

One device: copy 2500-3500, gemm 3000-5000, relu 4500-6000 on another stream, memset 7000-7100.
"""
SCHEMA_3: Tables = {
    **STRINGS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, returnValue INT",
        [(1000, 1200, 0, FIRST | 101, 11, 1, 0), (1500, 1600, 0, SECOND | 201, 11, 1, 0)],
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{PLACE}, demangledName INT, shortName INT, mangledName INT, graphNodeId INT",
        [(3000, 5000, 0, 1, 7, 11, FIRST, 5, 4, 4, None), (3000, 3400, 0, 1, 7, 11, SECOND, None, 4, 4, 9)],
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        f"{PLACE}, graphId INT, graphExecId INT",
        [(6000, 6500, 0, 1, 7, 12, FIRST, 4, 5)],
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        f"{PLACE}, syncType INT, eventId INT",
        [(1700, 5100, 0, 1, 7, 16, FIRST, 3, 0)],
    ),
    "NVTX_EVENTS": (
        "start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, domainId INT",
        [(500, 9500, 59, None, 9, FIRST | 101, 0), (600, None, 60, "left open", None, FIRST | 101, 0)],
    ),
    "TARGET_INFO_GPU": ("id INT, name TEXT, smCount INT", [(2, "NVIDIA H100", 132), (3, "NVIDIA H100", 132)]),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId INT, cudaId INT, pid INT", [(2, 0, 100), (3, 0, 200)]),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs INT", [(1_750_000_000_000_000_000,)]),
    "META_DATA_EXPORT": (
        "name TEXT, value TEXT",
        [("EXPORT_PRODUCT_VERSION", "2025.1"), ("EXPORT_SCHEMA_VERSION", "3.17.2"), ("EXPORT_USER", "someone")],
    ),
    "DIAGNOSTIC_EVENT": ("timestamp INT, severity INT, text TEXT", [(1, 1, "Begun."), (2, 2, "Events lost.")]),
}
"""Of 2025, of two processes, each on its own GPU that it calls device 0, with equal correlation ids.

Process 100 on GPU 2: gemm 3000-5000, a graph as a whole 6000-6500. Process 200 on GPU 3: gemm 3000-3400.
"""


def nsys_schema_2(folder: Path) -> Path:
    """An export of schema 2 in a folder."""
    return database(folder / "schema2.sqlite", SCHEMA_2)


def nsys_schema_3(folder: Path) -> Path:
    """An export of schema 3 in a folder."""
    return database(folder / "schema3.sqlite", SCHEMA_3)


def database(path: Path, tables: Tables) -> Path:
    """A database of these tables, written."""
    with sqlite3.connect(path) as written:
        for table, (columns, rows) in tables.items():
            written.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * (columns.count(",") + 1))
            written.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    return path
