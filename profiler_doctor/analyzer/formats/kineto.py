"""Chrome traces as PyTorch's profiler writes them, of every age: an object with traceEvents, or a bare list."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._about import base_of, devices_of, producer_of, rank_of
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._events import Read, read_events
from profiler_doctor.analyzer.formats._holds import left_out, missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._notes import broken_off, notes
from profiler_doctor.analyzer.formats._opening import Around, around, open_list
from profiler_doctor.analyzer.formats._text import Window
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Events, Trace

OTHERS = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"|"highres-ticks"|"/host:CPU"|"/device:')
"""ONNX Runtime's and JAX's profiles are chrome traces too, with readers of their own."""
MARKS = re.compile(rb'"(?:traceEvents|schemaVersion|deviceProperties)"')
BLANK = b"\xef\xbb\xbf \t\r\n"


def read_kineto(path: Path) -> Trace:
    """The trace in a kineto file. Raises UnreadableTrace where it holds no event."""
    window, columns = Window(path), Columns()
    opening = open_list(window)
    read = read_events(window, columns)
    rest = around(opening, window, read.closed)
    written = set(columns.categories) | columns.written_arguments | {pid for pid, _ in columns.threads.known}
    events = left_out(columns.events(), columns.trouble)
    columns.trouble["header"] += rest.lost
    if not np.any((events.phase != 0) & (events.phase != ord("M"))):
        raise UnreadableTrace(_empty(path, columns, read))
    return Trace(
        events=events,
        source=str(path),
        format="kineto",
        producer=producer_of(rest.keys, written, bool(np.any(events.start_ns % 1000))),
        base_ns=base_of(rest.metadata),
        devices=devices_of(rest.metadata),
        metadata=rest.metadata,
        health=_health(window, columns, events, (read, rest)),
        has=what_it_holds(events),
        rank=rank_of(rest.metadata, str(path)),
    )


def _health(window: Window, columns: Columns, events: Events, ends: tuple[Read, Around]) -> tuple[HealthNote, ...]:
    read, rest = ends
    cut = broken_off(window.file.broken, read.lost, read.closed and rest.closed)
    return (*cut, *notes(columns.trouble), *missing_gpu_work(events))


def _empty(path: Path, columns: Columns, read: Read) -> str:
    if columns.trouble["untimed"]:
        return f"{path} holds {columns.length} events, but none of them has a usable time."
    if columns.trouble["dropped"] and not columns.length:
        return f"{path} is damaged throughout: none of its {columns.trouble['dropped']} events can be read."
    if columns.length:
        return f"{path} holds no events, only the names of processes and threads: nothing ran while it was recorded."
    if read.lost:
        return f"{path} breaks off within its first event; {read.lost} bytes of it are there. Record it again."
    return (
        f"{path} is a trace without events: nothing ran while it was recorded, or its list of events was never written."
    )


def _knows(head: bytes, path: Path) -> bool:  # noqa: ARG001  # a format may look at the path; this one need not
    start = head.lstrip(BLANK)
    if OTHERS.search(start):
        return False
    return (start.startswith(b"{") and MARKS.search(start) is not None) or (start.startswith(b"[") and b'"ph"' in start)


FORMAT = Format(name="kineto", knows=_knows, read=read_kineto)
