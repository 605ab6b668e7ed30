"""Profiles of JAX and TensorFlow as protocol buffers (`*.xplane.pb`): planes of lines of events, in picoseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from profiler_doctor.analyzer.formats._blocks import Table
from profiler_doctor.analyzer.formats._documents import whole
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._planes import PLANE, PLANE_NAME, Plane, planes
from profiler_doctor.analyzer.formats._protobuf import BYTES, PADDING, Raw, padded, text, walk
from profiler_doctor.analyzer.formats._xla import DEVICE, vendor_of
from profiler_doctor.analyzer.formats._xlines import add_plane
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Device, Events, Trace

PLANE_NAMED = re.compile(r"^/\w+:|^Task Environment$|^#Chip|^Host Threads")
ERROR, WARNING, HOSTNAME = 2, 3, 4
"""Fields of the outermost message beside its planes."""


def read_xplane(path: Path) -> Trace:
    """The trace in an xplane file.

    Starts and ends are each rounded down to the nanosecond, so that what followed one another still does; how many had
    a fraction is noted. Kernels are the events of the lines "Stream #…" alone.
    """
    content, broken = whole(path)
    data, table = padded(content), Table()
    found = planes(data, table.trouble)
    said = _told(data)
    for plane in found:
        add_plane(table, data, plane)
    events = table.events(path)
    facts = _facts(found)
    return Trace(
        events=events,
        source=str(path),
        format="xplane",
        producer=f"JAX {facts['jax_version']}" if "jax_version" in facts else "XLA's profiler (JAX or TensorFlow)",
        base_ns=_base(facts, events),
        devices=tuple(_devices(found)),
        metadata={**facts, "hostnames": said.get(HOSTNAME, [])},
        health=(*_notes(said, broken, table.trouble["broken"]), *table.notes(), *missing_gpu_work(events)),
        has=what_it_holds(events),
    )


def _told(data: Raw) -> dict[int, list[str]]:
    said: dict[int, list[str]] = {}
    for entry in walk(data, 0, len(data) - PADDING, Counter()):
        if entry.number in (ERROR, WARNING, HOSTNAME) and entry.wire == BYTES:
            said.setdefault(entry.number, []).append(text(data, entry.start, entry.end))
    return said


def _facts(found: Sequence[Plane]) -> dict[str, object]:
    """What the planes without events say: versions, and when the profile was begun."""
    facts: dict[str, object] = {}
    for plane in found:
        if not plane.lines:
            facts |= {name: value for name, value in plane.stats.items() if isinstance(value, str | int | float)}
    return facts


def _base(facts: Mapping[str, object], events: Events) -> int:
    """The wall-clock time at which the lines' times begin; 0 where they are wall-clock times themselves."""
    begin = facts.get("profile_start_time")
    return begin if isinstance(begin, int) and int(events.start_ns.max(initial=0)) < begin // 2 else 0


def _devices(found: Sequence[Plane]) -> Iterator[Device]:
    for plane in found:
        if place := DEVICE.match(plane.name):
            stats = {name: value for name, value in plane.stats.items() if isinstance(value, int)}
            major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
            yield Device(
                id=int(place["id"]),
                name=str(plane.stats.get("gpu_device_name", plane.stats.get("device_type_string", ""))),
                compute_capability=(major, minor) if major is not None and minor is not None else None,
                multiprocessors=stats.get("core_count"),
                memory_bytes=stats.get("memory_size"),
                vendor=vendor_of(str(plane.stats.get("device_vendor", ""))),
            )


def _notes(said: Mapping[int, list[str]], broken: str, damaged: int) -> Iterator[HealthNote]:
    if broken or damaged:
        why = f" ({broken})" if broken else ""
        message = f"The file breaks off or is damaged{why}, at {damaged} places: of each part what came before is read."
        yield HealthNote(code="TRUNCATED", message=message, events=damaged)
    for level in (ERROR, WARNING):
        for sentence in dict.fromkeys(said.get(level, ())):
            yield HealthNote(code="PROFILER-SAYS", message=f"The profiler says: {sentence}", events=0)


def _knows(head: bytes, path: Path) -> bool:  # noqa: ARG001  # the kind's signature
    """Whether the first message is a plane by its name: it comes first in it, behind at most a number."""
    data = padded(head)
    plane = next(walk(data, 0, len(head), Counter()), None)
    if plane is None or plane.number != PLANE or plane.wire != BYTES:
        return False
    first = islice(walk(data, plane.start, plane.end, Counter()), 2)
    names = [
        text(data, field.start, field.end) for field in first if field.number == PLANE_NAME and field.wire == BYTES
    ]
    return any(PLANE_NAMED.match(name) for name in names)


FORMAT = Format(name="xplane", knows=_knows, read=read_xplane)
