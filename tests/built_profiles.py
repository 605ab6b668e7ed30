"""Profiles of the formats of which no real sample is at hand, built small from their documented schemas.

Every number in them is chosen so that totals can be worked out on paper. Times are nanoseconds unless said otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.built_nsys import nsys_schema_2, nsys_schema_3
from tests.built_xla import jax_gpu_json, tpu_xplane


def _record(kind: int, operation: int, times: tuple[int, int], internal: int, **more: Any) -> dict[str, Any]:
    start, end = times
    ids = {"internal": internal, "external": 0}
    return {"size": 0, "kind": kind, "operation": operation, "thread_id": 101, "correlation_id": ids,
            "start_timestamp": start, "end_timestamp": end, **more}  # fmt: skip


DISPATCH = {
    "agent_id": {"handle": 777}, "queue_id": {"handle": 5}, "kernel_id": 9, "dispatch_id": 1, "group_segment_size": 512,
    "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1024, "y": 2, "z": 1},
}  # fmt: skip
ENDS = {"src_agent_id": {"handle": 111}, "dst_agent_id": {"handle": 777}}
STRINGS = {
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
RECORDS = {
    "kernel_dispatch": [_record(3, 0, (3000, 5000), 3, dispatch_info=DISPATCH)],
    "memory_copy": [_record(4, 2, (2000, 2600), 2, bytes=4096, **ENDS)],
    "hip_api": [_record(1, 2, (1000, 1300), 2), _record(1, 1, (1400, 1500), 3)],
    "marker_api": [_record(2, 1, (900, 6000), 1)],
    "hsa_api": [_record(5, 0, (800, 890), 4)],
    "scratch_memory": [{"size": 1}, {"size": 1}],
    "pc_sample_host_trap": [],
}
AGENTS = [
    {"id": {"handle": 111}, "type": 1, "node_id": 0, "name": "EPYC"},
    {"id": {"handle": 777}, "type": 2, "node_id": 2, "name": "gfx942", "product_name": "MI300X", "cu_count": 304},
]


def rocprof(folder: Path) -> Path:
    """One process of rocprofv3: gemm 3000-5000 on agent 2, copy 2000-2600 to it, calls and a marker around them."""
    entry = {
        "metadata": {"pid": 100, "init_time": 700, "fini_time": 7000},
        "agents": AGENTS,
        "strings": STRINGS,
        "kernel_symbols": [{"kernel_id": 9, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm(float*)"}],
        "buffer_records": RECORDS,
    }
    path = folder / "results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [entry]}, indent=1), encoding="utf-8")
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
