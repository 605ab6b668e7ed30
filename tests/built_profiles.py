"""Profiles of the formats of which no real sample is at hand, built small from their documented schemas.

Every number in them is chosen so that totals can be worked out on paper. Times are nanoseconds unless said otherwise.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

VIRTUAL_MACHINE = 1 << 48
"""The bits above the process id in Nsight's global ids."""
STRINGS = {
    1: "cudaLaunchKernel_v7000", 2: "cudaMemcpyAsync_v3020", 3: "cudaDeviceSynchronize_v3020", 4: "gemm",
    5: "void gemm<float>(float*)", 6: "relu", 7: "void relu<float>(float*)", 8: "cuLaunchKernel", 9: "ProfilerStep#1",
}  # fmt: skip


def process_id(pid: int) -> int:
    """Nsight's global id of a process."""
    return VIRTUAL_MACHINE | pid << 24


def _fill(database: sqlite3.Connection, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
    database.execute(f"CREATE TABLE {table} ({columns})")
    marks = ", ".join("?" * (columns.count(",") + 1))
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


PLACE = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT"


def nsys_schema_2(folder: Path) -> Path:
    """An export of 2021: no enums, nothing NULL, NVTX texts in place, calls without a class.

    One device: copy 2500-3500, gemm 3000-5000, relu 4500-6000 on another stream, memset 7000-7100.
    """
    path, pid = folder / "schema2.sqlite", process_id(100)
    with sqlite3.connect(path) as database:
        _fill(database, "StringIds", "id INTEGER PRIMARY KEY, value TEXT NOT NULL", list(STRINGS.items()))
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "start INT, end INT, globalTid INT, correlationId INT, nameId INT, returnValue INT, callchainId INT",
            [
                (1000, 1200, pid | 101, 11, 1, 0, 0),
                (1300, 1500, pid | 101, 12, 2, 0, 0),
                (1600, 1700, pid | 101, 13, 8, 0, 0),
                (2000, 9000, pid | 101, 15, 3, 0, 0),
            ],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_KERNEL",
            f"{PLACE}, demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT, "
            "blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT",
            [
                (3000, 5000, 0, 1, 7, 11, pid, 5, 4, 32, 8, 1, 1, 128, 1, 1, 100, 24),
                (4500, 6000, 0, 1, 8, 13, pid, 7, 6, 16, 1, 1, 1, 64, 2, 1, 0, 0),
            ],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            f"{PLACE}, bytes INT, copyKind INT, srcKind INT, dstKind INT",
            [(2500, 3500, 0, 1, 7, 12, pid, 4096, 1, 1, 2)],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_MEMSET",
            f"{PLACE}, value INT, bytes INT, memKind INT",
            [(7000, 7100, 0, 1, 7, 14, pid, 0, 64, 2)],
        )
        _fill(
            database,
            "NVTX_EVENTS",
            "start INT, end INT, eventType INT, rangeId INT, text TEXT, globalTid INT",
            [
                (500, 9500, 59, 0, "ProfilerStep#1", pid | 101),
                (900, 1250, 59, 0, "aten::mm, seq = 7, op_id = 3, sizes = [[2, 3], [3, 4]]", pid | 101),
                (950, 0, 34, 0, "here", pid | 101),
                (960, 0, 59, 0, "left open", pid | 101),
                (0, 0, 75, 0, "a domain", pid | 101),
            ],
        )
        _fill(database, "TARGET_INFO_GPU", "id INT, name TEXT", [(0, "Quadro RTX 6000")])
        _fill(database, "SCHED_EVENTS", "id INT, start INT, cpu INT", [(1, 10, 0), (2, 20, 1), (3, 30, 0)])
    return path


def nsys_schema_3(folder: Path) -> Path:
    """An export of 2025 of two processes, each on its own GPU that it calls device 0, with equal correlation ids.

    Process 100 on GPU 2: gemm 3000-5000, a graph as a whole 6000-6500. Process 200 on GPU 3: gemm 3000-3400.
    """
    path, first, second = folder / "schema3.sqlite", process_id(100), process_id(200)
    with sqlite3.connect(path) as database:
        _fill(database, "StringIds", "id INTEGER PRIMARY KEY, value TEXT NOT NULL", list(STRINGS.items()))
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, returnValue INT",
            [(1000, 1200, 0, first | 101, 11, 1, 0), (1500, 1600, 0, second | 201, 11, 1, 0)],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_KERNEL",
            f"{PLACE}, demangledName INT, shortName INT, mangledName INT, graphNodeId INT",
            [(3000, 5000, 0, 1, 7, 11, first, 5, 4, 4, None), (3000, 3400, 0, 1, 7, 11, second, None, 4, 4, 9)],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            f"{PLACE}, graphId INT, graphExecId INT",
            [(6000, 6500, 0, 1, 7, 12, first, 4, 5)],
        )
        _fill(
            database,
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            f"{PLACE}, syncType INT, eventId INT",
            [(1700, 5100, 0, 1, 7, 16, first, 3, 0)],
        )
        _fill(
            database,
            "NVTX_EVENTS",
            "start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, domainId INT",
            [(500, 9500, 59, None, 9, first | 101, 0), (600, None, 60, "left open", None, first | 101, 0)],
        )
        _fill(
            database,
            "TARGET_INFO_GPU",
            "id INT, name TEXT, smCount INT",
            [(2, "NVIDIA H100", 132), (3, "NVIDIA H100", 132)],
        )
        _fill(database, "TARGET_INFO_CUDA_DEVICE", "gpuId INT, cudaId INT, pid INT", [(2, 0, 100), (3, 0, 200)])
        _fill(database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs INT", [(1_750_000_000_000_000_000,)])
        _fill(
            database,
            "META_DATA_EXPORT",
            "name TEXT, value TEXT",
            [("EXPORT_PRODUCT_VERSION", "2025.1"), ("EXPORT_SCHEMA_VERSION", "3.17.2"), ("EXPORT_USER", "someone")],
        )
        _fill(
            database,
            "DIAGNOSTIC_EVENT",
            "timestamp INT, severity INT, text TEXT",
            [(1, 1, "Begun."), (2, 2, "Events lost.")],
        )
    return path


def _record(kind: int, operation: int, times: tuple[int, int], internal: int, **more: Any) -> dict[str, Any]:
    start, end = times
    ids = {"internal": internal, "external": 0}
    return {"size": 0, "kind": kind, "operation": operation, "thread_id": 101, "correlation_id": ids,
            "start_timestamp": start, "end_timestamp": end, **more}  # fmt: skip


def rocprof(folder: Path) -> Path:
    """One process of rocprofv3: gemm 3000-5000 on agent 2, copy 2000-2600 to it, calls and a marker around them."""
    xyz = {"x": 1024, "y": 2, "z": 1}
    dispatch = {
        "agent_id": {"handle": 777}, "queue_id": {"handle": 5}, "kernel_id": 9, "dispatch_id": 1,
        "group_segment_size": 512, "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": xyz,
    }  # fmt: skip
    strings = {
        "buffer_records": [
            {"kind": "NONE", "operations": []},
            {"kind": "HIP_RUNTIME_API", "operations": ["none", "hipLaunchKernel", "hipMemcpyAsync"]},
            {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA"]},
            {"kind": "KERNEL_DISPATCH", "operations": ["none"]},
            {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE"]},
            {"kind": "HSA_CORE_API", "operations": ["hsa_init"]},
        ],
        "marker_api": [{"key": 1, "value": "ProfilerStep#4"}],
    }
    records = {
        "kernel_dispatch": [_record(3, 0, (3000, 5000), 3, dispatch_info=dispatch)],
        "memory_copy": [
            _record(4, 2, (2000, 2600), 2, bytes=4096, src_agent_id={"handle": 111}, dst_agent_id={"handle": 777})
        ],
        "hip_api": [_record(1, 2, (1000, 1300), 2), _record(1, 1, (1400, 1500), 3)],
        "marker_api": [_record(2, 1, (900, 6000), 1)],
        "hsa_api": [_record(5, 0, (800, 890), 4)],
        "scratch_memory": [{"size": 1}, {"size": 1}],
        "pc_sample_host_trap": [],
    }
    entry = {
        "metadata": {"pid": 100, "init_time": 700, "fini_time": 7000},
        "agents": [
            {"id": {"handle": 111}, "type": 1, "node_id": 0, "name": "EPYC"},
            {
                "id": {"handle": 777},
                "type": 2,
                "node_id": 2,
                "name": "gfx942",
                "product_name": "MI300X",
                "cu_count": 304,
            },
        ],
        "strings": strings,
        "kernel_symbols": [{"kernel_id": 9, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm(float*)"}],
        "buffer_records": records,
    }
    path = folder / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [entry]}, indent=1), encoding="utf-8")
    return path


def _named(pid: int, tid: int | None, name: str) -> dict[str, Any]:
    what = {"name": "process_name"} if tid is None else {"name": "thread_name", "tid": tid}
    return {"ph": "M", "pid": pid, **what, "args": {"name": name}}


def _slice(pid: int, tid: int, times_us: tuple[float, float], name: str, **arguments: str) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": times_us[0], "dur": times_us[1], "name": name, "args": arguments}


def jax_gpu_json(folder: Path) -> Path:
    """One GPU: copy 2.0-2.5 us, fusions 3.0-5.0 and 4.5-6.0 us on two streams; three lines repeat the fusions."""
    copy = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"
    events = [
        _named(1, None, "/device:GPU:0 NVIDIA H100"), _named(1, 7, "Stream #7(MemcpyH2D,Compute)"),
        _named(1, 8, "Stream #8(Compute)"), _named(1, 20, "XLA Ops"), _named(1, 21, "XLA Modules"),
        _named(1, 22, "Steps"), _named(701, None, "/host:CPU"), _named(701, 30, "python"),
        _slice(701, 30, (0.5, 9.0), "train", step_num="3"),
        _slice(701, 30, (0.6, 8.0), "$model.py:12 forward"),
        _slice(701, 30, (1.0, 0.2), "cuLaunchKernel", correlation_id="11"),
        _slice(1, 7, (2.0, 0.5), "MemcpyH2D", correlation_id="10", memcpy_details=copy),
        _slice(1, 7, (3.0, 2.0), "fusion.1", correlation_id="11", kernel_details="regs:32 grid:8,1,1 block:128,1,1"),
        _slice(1, 8, (4.5, 1.5), "fusion.2", correlation_id="12"),
        _slice(1, 20, (3.0, 2.0), "fusion.1"), _slice(1, 20, (4.5, 1.5), "fusion.2"),
        _slice(1, 21, (3.0, 3.0), "jit_step"), _slice(1, 22, (3.0, 3.0), "3"),
        {},
    ]  # fmt: skip
    path = folder / "perfetto_trace.json.gz"
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protocol buffer: numbers as varints, texts and messages with their length."""
    found = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            found += _varint(number << 3) + _varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            found += _varint(number << 3 | 2) + _varint(len(content)) + content
    return bytes(found)


def _plane(
    name: str, lines: Sequence[bytes], events: Mapping[int, str], stats: Mapping[int, str], *more: bytes
) -> bytes:
    tables = [
        (number, message((1, key), (2, message((1, key), (2, text)))))
        for number, table in ((4, events), (5, stats))
        for key, text in table.items()
    ]
    return message((2, name), *((3, line) for line in lines), *tables, *((6, stat) for stat in more))


def _line(number: int, name: str, events: Sequence[bytes]) -> bytes:
    return message((1, number), (2, name), (3, 1000), *((4, event) for event in events))


def _event(key: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
    return message((1, key), (2, offset_ps), (3, duration_ps), *((4, stat) for stat in stats))


def tpu_xplane(folder: Path) -> Path:
    """A TPU: no streams, its work on the line "XLA Ops", in picoseconds. Lines begin at 1000 ns.

    fusion 0-1500 ps (1000-1001 ns), copy 1500-2999 ps (1001-1002 ns), and one host call with a 64-bit id.
    """
    ops = _line(1, "XLA Ops", [_event(1, 0, 1500, message((1, 1), (4, 7))), _event(2, 1500, 1499)])
    steps = _line(2, "Steps", [_event(3, 0, 2999)])
    device = _plane("/device:TPU:0", [ops, steps], {1: "fusion", 2: "copy", 3: "0"}, {1: "run_id", 2: "core_count"},
                    message((1, 2), (4, 2)))  # fmt: skip
    called = _event(1, 500, 1_000_000, message((1, 1), (3, (1 << 64) - 3)))
    host = _plane("/host:CPU", [_line(9, "main", [called])], {1: "ExecuteOnDevice"}, {1: "run_id"})
    start = message((1, 1), (3, 1_750_000_000_000_000_000))
    environment = _plane("Task Environment", [], {}, {1: "profile_start_time"}, start)
    path = folder / "tpu.xplane.pb"
    path.write_bytes(message((1, device), (1, host), (1, environment), (3, "2 events were dropped"), (4, "worker")))
    return path


def _node(name: str, times_us: tuple[int, int], **arguments: object) -> dict[str, Any]:
    start, duration = times_us
    return {
        "cat": "Node",
        "pid": 100,
        "tid": 101,
        "dur": duration,
        "ts": start,
        "ph": "X",
        "name": name,
        "args": arguments,
    }


def ort_on_gpu(folder: Path) -> Path:
    """A session of today on CUDA: two runs; If holds a Conv of its subgraph; one node on the CPU. Microseconds."""
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    shape = [{"float": [1, 3, 8, 8]}, {"float": [4, 3, 1, 1]}]
    session = {"cat": "Session", "pid": 100, "tid": 101, "ph": "X", "args": {}}
    events = [
        {**session, "name": "model_run", "ts": 100, "dur": 500},
        {**session, "name": "SequentialExecutor::Execute", "ts": 110, "dur": 480},
        _node("if_1_kernel_time", (120, 200), op_name="If", provider=cpu, thread_scheduling_stats=""),
        _node(
            "conv_1_kernel_time", (130, 50), op_name="Conv", provider=cuda, input_type_shape=shape, parameter_size="832"
        ),
        {**session, "name": "model_run", "ts": 700, "dur": 60},
        _node(
            "conv_1_kernel_time", (710, 20), op_name="Conv", provider=cuda, input_type_shape=shape, parameter_size="832"
        ),
    ]
    path = folder / "onnxruntime_profile.json"
    path.write_text("[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n", encoding="utf-8")
    return path


def autograd_export(folder: Path) -> Path:
    """What torch.autograd.profiler exports where kineto is not built: a list without categories. Microseconds."""
    slice_ = {"ph": "X", "tid": 1, "args": {}}
    events = [
        {**slice_, "name": "aten::mm", "ts": 10.5, "dur": 20.25, "pid": "CPU functions"},
        {**slice_, "name": "gemm", "ts": 40.0, "dur": 5.0, "pid": "CUDA functions"},
    ]
    path = folder / "legacy.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    return path


BUILT: Mapping[str, tuple[str, Callable[[Path], Path]]] = {
    "nsys schema 2": ("nsys", nsys_schema_2),
    "nsys schema 3": ("nsys", nsys_schema_3),
    "rocprofv3": ("rocprof", rocprof),
    "JAX on a GPU as JSON": ("jax_json", jax_gpu_json),
    "xplane of a TPU": ("xplane", tpu_xplane),
    "ONNX Runtime on a GPU": ("ort", ort_on_gpu),
    "autograd export": ("kineto", autograd_export),
}
"""What it is → the format that reads it, and how it is built in a folder."""
