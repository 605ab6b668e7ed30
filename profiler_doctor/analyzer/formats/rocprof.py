"""JSON of rocprofv3 (the tool of AMD's rocprofiler-sdk): a list of processes, each with records by kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._blocks import Slice, Table, block_of
from profiler_doctor.analyzer.formats._documents import document
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._rocprof_process import Process, as_list, as_map
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Device, Trace

TOOL = "rocprofiler-sdk-tool"
MARK = re.compile(rb'^\{\s*"rocprofiler-sdk-tool"\s*:')
GPU = 2
"""`type` of an agent; 1 is a CPU."""


def read_rocprof(path: Path) -> Trace:
    """The trace in a rocprofv3 file. Times are nanoseconds of the machine's own clock, kept as they are."""
    found = document(path)
    tool = found.get(TOOL) if isinstance(found, dict) else None
    entries = [entry for entry in (tool if isinstance(tool, list) else [tool]) if isinstance(entry, dict)]
    if not entries:
        raise UnreadableTrace(f"{path} is not a file of rocprofv3: there is no process in it.")
    table = Table()
    processes = [Process(entry, place) for place, entry in enumerate(entries)]
    for process in processes:
        for category, slices in _grouped(process).items():
            table.add(block_of(category, slices))
    events = table.events(path)
    return Trace(
        events=events,
        source=str(path),
        format="rocprof",
        producer="rocprofv3",
        devices=tuple({device.id: device for process in processes for device in _devices(process)}.values()),
        metadata={"processes": [process.pid for process in processes]},
        health=(*table.notes(), *_notes(processes), *missing_gpu_work(events)),
        has=what_it_holds(events),
    )


def _grouped(process: Process) -> dict[str, list[Slice]]:
    grouped: dict[str, list[Slice]] = {}
    for category, slice_ in process.events():
        grouped.setdefault(category, []).append(slice_)
    return grouped


def _devices(process: Process) -> Iterator[Device]:
    for agent in process.agents.values():
        if agent.get("type") == GPU:
            processors, memory = agent.get("cu_count"), sum(_bytes(bank) for bank in as_list(agent.get("mem_banks")))
            yield Device(
                id=process.device_of(agent),
                name=str(agent.get("product_name") or agent.get("name") or ""),
                multiprocessors=processors if isinstance(processors, int) else None,
                memory_bytes=memory or None,
                vendor="amd",
            )


def _bytes(bank: object) -> int:
    size = as_map(bank).get("size_in_bytes")
    return size if isinstance(size, int) else 0


def _notes(processes: list[Process]) -> Iterator[HealthNote]:
    others: dict[str, int] = {}
    for process in processes:
        for kind, number in process.not_read().items():
            others[kind] = others.get(kind, 0) + number
    if others:
        said = ", ".join(f"{number} of {kind}" for kind, number in sorted(others.items()))
        message = f"{sum(others.values())} records are of kinds that are not read here: {said}."
        yield HealthNote(code="TABLES-NOT-READ", message=message, events=sum(others.values()))


def _knows(head: bytes, path: Path) -> bool:  # noqa: ARG001  # the kind's signature
    return MARK.match(head.lstrip(b"\xef\xbb\xbf \t\r\n")) is not None


FORMAT = Format(name="rocprof", knows=_knows, read=read_rocprof)
