"""One process of a rocprofv3 file: its names, its devices, and its records as events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from profiler_doctor.analyzer.formats._blocks import PROCESS_APART, Slice
from profiler_doctor.analyzer.formats._times import NEVER

Record = Mapping[str, Any]
KERNELS = ("kernel_dispatch", "kernel_dispatches")
"""The second is how the first versions called it."""
CALLS = {
    "hip_api": "cuda_runtime",
    "rccl_api": "cpu_op",
    "marker_api": "user_annotation",
    "hsa_api": "hsa_api",
    "rocdecode_api": "cpu_op",
    "rocjpeg_api": "cpu_op",
}
"""Kind of record of the host → category. HSA calls are what HIP is made of: kept, and not counted a second time."""
COPIES = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}
ENDS = {"H": "Host", "D": "Device"}


class Process:
    """One entry of the file; `place` counts them. Its correlation ids are set apart from the other processes'."""

    def __init__(self, entry: Record, place: int) -> None:
        self._place = place
        self._records = as_map(entry.get("buffer_records"))
        strings = as_map(entry.get("strings"))
        self._kinds = as_list(strings.get("buffer_records"))
        self._messages = _pairs(strings.get("marker_api"))
        symbols = [as_map(symbol) for symbol in as_list(entry.get("kernel_symbols"))]
        self._kernels = {symbol.get("kernel_id", index): symbol for index, symbol in enumerate(symbols)}
        self.agents = {_handle(agent.get("id")): agent for agent in map(as_map, as_list(entry.get("agents")))}
        pid = as_map(entry.get("metadata")).get("pid")
        self.pid = pid if isinstance(pid, int) else place

    def events(self) -> Iterator[tuple[str, Slice]]:
        """(category, event) of every record that is read."""
        for kind in KERNELS:
            for record in as_list(self._records.get(kind)):
                yield "kernel", self._kernel(as_map(record))
        for record in as_list(self._records.get("memory_copy")):
            yield "gpu_memcpy", self._copy(as_map(record))
        for kind, category in CALLS.items():
            for record in as_list(self._records.get(kind)):
                yield category, self._call(as_map(record), self._messages if kind == "marker_api" else {})

    def not_read(self) -> Mapping[str, int]:
        """Kinds of records that are not events here, and how many each has."""
        read = {*KERNELS, *CALLS, "memory_copy"}
        return {kind: len(records) for kind, records in self._records.items() if kind not in read and records}

    def device_of(self, agent: Record) -> int:
        """The number of a device among all agents of the machine."""
        numbers = [agent.get(name) for name in ("logical_node_id", "node_id")]
        return next((number for number in numbers if isinstance(number, int)), 0)

    def _kernel(self, record: Record) -> Slice:
        info = as_map(record.get("dispatch_info"))
        symbol = as_map(self._kernels.get(info.get("kernel_id")))
        sizes = {
            "grid": _groups(info.get("grid_size"), info.get("workgroup_size")),
            "block": _three(info.get("workgroup_size")),
            "shared memory": info.get("group_segment_size"),
        }
        names = (symbol.get(name) for name in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
        name = next((str(name) for name in names if name), f"kernel {info.get('kernel_id')}")
        queue = _handle(record.get("stream_id"), _handle(info.get("queue_id")))
        return self._on_device(record, name, (self._device(info.get("agent_id")), queue), sizes)

    def _copy(self, record: Record) -> Slice:
        written = self._operation(record)
        direction = next((short for long, short in COPIES.items() if written.endswith(long)), "Unknown")
        name = f"Memcpy {direction}"
        if direction in COPIES.values():
            name += f" ({ENDS[direction[0]]} -> {ENDS[direction[-1]]})"
        to_device = direction != "DtoH"
        agent = record.get("dst_agent_id" if to_device else "src_agent_id")
        place = (self._device(agent), _handle(record.get("stream_id")))
        return self._on_device(record, name, place, {"bytes": record.get("bytes")})

    def _on_device(self, record: Record, name: str, place: tuple[int, int], more: Mapping[str, object]) -> Slice:
        arguments = {"device": place[0], "stream": place[1], "correlation": self._correlation(record), **more}
        return Slice(name, place, *_times(record), arguments)

    def _call(self, record: Record, messages: Mapping[object, str]) -> Slice:
        thread = record.get("thread_id")
        correlation = self._correlation(record)
        name = messages.get(as_map(record.get("correlation_id")).get("internal")) or self._operation(record)
        place = (self.pid, thread if isinstance(thread, int) else 0)
        return Slice(name, place, *_times(record), {"correlation": correlation})

    def _operation(self, record: Record) -> str:
        """The name of a record's operation, from the tables of the file or, in newer ones, the record itself."""
        kind, operation = record.get("kind"), record.get("operation")
        if isinstance(operation, str):
            return operation
        known = as_map(_at(self._kinds, kind))
        return str(_at(as_list(known.get("operations")), operation) or known.get("kind") or "")

    def _device(self, agent_id: object) -> int:
        return self.device_of(as_map(self.agents.get(_handle(agent_id))))

    def _correlation(self, record: Record) -> int | None:
        number = as_map(record.get("correlation_id")).get("internal")
        return number + self._place * PROCESS_APART if isinstance(number, int) and number > 0 else None


def as_map(value: object) -> Record:
    """A JSON object, empty where it is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A JSON list, empty where it is none."""
    return value if isinstance(value, list) else []


def _times(record: Record) -> tuple[int, int]:
    start, end = record.get("start_timestamp"), record.get("end_timestamp")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else (NEVER, NEVER)


def _handle(value: object, otherwise: int = 0) -> int:
    number = as_map(value).get("handle")
    return number if isinstance(number, int) else otherwise


def _at(values: list[Any], index: object) -> Any:
    return values[index] if isinstance(index, int) and 0 <= index < len(values) else None


def _pairs(value: object) -> dict[object, str]:
    """A map as cereal writes it, a list of {"key", "value"}, or as a plain object."""
    if isinstance(value, dict):
        return {int(key) if str(key).isdecimal() else key: str(text) for key, text in value.items()}
    return {as_map(pair).get("key"): str(as_map(pair).get("value", "")) for pair in as_list(value)}


def _numbers(size: object) -> list[int]:
    numbers = [as_map(size).get(axis) for axis in "xyz"]
    return [number for number in numbers if isinstance(number, int)]


def _three(size: object) -> str | None:
    numbers = _numbers(size)
    return json.dumps(numbers) if len(numbers) == 3 else None


def _groups(work_items: object, group: object) -> str | None:
    """HSA counts work items where CUDA and HIP count groups."""
    items, sizes = _numbers(work_items), _numbers(group)
    if len(items) != 3 or len(sizes) != 3:
        return None
    return json.dumps([-(-item // max(size, 1)) for item, size in zip(items, sizes, strict=True)])
