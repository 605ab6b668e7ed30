"""The JSON that JAX and TensorFlow export for viewers (`perfetto_trace.json.gz`, `*.trace.json.gz`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.formats._blocks import Slice, Table, ThreadKey, block_of
from profiler_doctor.analyzer.formats._documents import written
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._times import NEVER
from profiler_doctor.analyzer.formats._xla import (
    ARGUMENTS,
    DERIVED,
    DETAILS,
    DEVICE,
    NUMBER,
    OPS_LINE,
    STEP,
    STREAM,
    details_of,
    host_category,
    work_category,
    work_name,
)
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Device, Trace

MARK = re.compile(rb'"name"\s*:\s*"/(?:device|host):')
SHORTEST = 1
"""Picoseconds that the exporter writes for an event without a duration, so that viewers show it."""
MOST_EVENTS = 1_000_000
"""The exporter keeps that many, the longest, and says nothing of the others."""


@dataclass(frozen=True)
class Names:
    """What the metadata events call the processes (planes) and threads (lines)."""

    planes: dict[object, str] = field(default_factory=dict)
    lines: dict[tuple[object, object], str] = field(default_factory=dict)

    def has_streams(self, plane: str) -> bool:
        """Whether a plane has a line of a stream; TPUs have none."""
        return any(STREAM.match(name) for (pid, _), name in self.lines.items() if self.planes.get(pid) == plane)


def read_jax_json(path: Path) -> Trace:
    """The trace in XLA's JSON. Times are rounded as in `xplane`; the zero of its clock is not in the file."""
    found = written(path, "traceEvents")
    events = [event for event in found.events if "ph" in event]  # the last one of a file is always {}
    names, table = _names(events), Table()
    streams = {plane: names.has_streams(plane) for plane in names.planes.values()}
    grouped: dict[str, list[Slice]] = {}
    for event in events:
        if event["ph"] == "X":
            category, slice_ = _slice(event, names, streams, table)
            grouped.setdefault(category, []).append(slice_)
    for category, slices in grouped.items():
        table.add(block_of(category, slices))
    columns = table.events(path)
    return Trace(
        events=columns,
        source=str(path),
        format="jax_json",
        producer="XLA's profiler (JAX or TensorFlow)",
        devices=tuple(_devices(names)),
        metadata=found.around,
        health=(*found.health, *table.notes(), *_notes(events), *missing_gpu_work(columns)),
        has=what_it_holds(columns),
    )


def _names(events: Sequence[Mapping[str, Any]]) -> Names:
    names = Names()
    for event in events:
        arguments = event.get("args")
        if event["ph"] == "M" and isinstance(arguments, dict):
            pid, tid, name = _part(event.get("pid")), _part(event.get("tid")), str(arguments.get("name", ""))
            if event.get("name") == "process_name":
                names.planes[pid] = name
            elif event.get("name") == "thread_name":
                names.lines[pid, tid] = name
    return names


def _slice(event: Mapping[str, Any], names: Names, streams: Mapping[str, bool], table: Table) -> tuple[str, Slice]:
    pid, tid = _part(event.get("pid")), _part(event.get("tid"))
    plane, line = names.planes.get(pid, ""), names.lines.get((pid, tid), "")
    start, end = _times(event, table)
    name, arguments = str(event.get("name", "")), _arguments(event.get("args"))
    device, stream = DEVICE.match(plane), STREAM.match(line)
    if device and (stream or (line == OPS_LINE and not streams[plane])):
        place = (int(device["id"]), int(stream["id"]) if stream else tid)
        details = {
            key: value for detail in DETAILS for key, value in details_of(str(arguments.get(detail, ""))).items()
        }
        arguments = {**arguments, **details, "device": place[0], "stream": place[1]}
        category = work_category(name)
        return category, Slice(work_name(name, str(arguments.get(DETAILS[0], ""))), place, start, end, arguments)
    thread: ThreadKey = (plane if device else pid, line or tid)
    if device:
        return DERIVED, Slice(name, thread, start, end, arguments)
    if isinstance(arguments.get(STEP), int):
        mark = f"ProfilerStep#{arguments[STEP]}"
        return "user_annotation", Slice(mark, thread, start, end, {**arguments, "Written name": name})
    return host_category(name), Slice(name, thread, start, end, arguments)


def _times(event: Mapping[str, Any], table: Table) -> tuple[int, int]:
    """Start and end in nanoseconds, each rounded down; microseconds come with up to six decimals."""
    start, duration = _picoseconds(event.get("ts")), _picoseconds(event.get("dur", 0))
    if start is None or duration is None:
        return NEVER, NEVER
    duration = 0 if duration == SHORTEST else duration
    table.trouble["fraction"] += start % 1000 != 0 or duration % 1000 != 0
    return start // 1000, (start + duration) // 1000


def _picoseconds(microseconds: object) -> int | None:
    try:
        return round(float(microseconds) * 1e6)  # type: ignore[arg-type]  # what is no number is caught
    except (TypeError, ValueError, OverflowError):
        return None


def _arguments(written: object) -> dict[str, object]:
    """The arguments that are not XLA's own bookkeeping; whole numbers come as text."""
    pairs = written.items() if isinstance(written, dict) else ()
    return {
        str(ARGUMENTS.get(name, name)): int(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value
        for name, value in pairs
        if isinstance(name, str) and not name.startswith("_")
    }


def _part(value: object) -> int | str:
    return value if isinstance(value, int | str) else ""


def _devices(names: Names) -> Iterator[Device]:
    for plane in dict.fromkeys(names.planes.values()):
        if device := DEVICE.match(plane):
            yield Device(id=int(device["id"]), name=plane[device.end() :].strip())


def _notes(events: Sequence[Mapping[str, Any]]) -> Iterator[HealthNote]:
    if sum(event["ph"] == "X" for event in events) >= MOST_EVENTS:
        said = f"The file holds {MOST_EVENTS} events, the most that is exported; shorter ones stand in xplane.pb alone."
        yield HealthNote(code="TRUNCATED", message=said, events=1)


def _knows(head: bytes, path: Path) -> bool:  # noqa: ARG001  # the kind's signature
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and b'"traceEvents"' in start and MARK.search(start) is not None


FORMAT = Format(name="jax_json", knows=_knows, read=read_jax_json)
