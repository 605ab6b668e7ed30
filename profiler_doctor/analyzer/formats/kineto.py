"""Chrome traces as PyTorch's profiler writes them, of every age: an object with traceEvents, or a bare list."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._about import base_of, devices_of, producer_of, rank_of
from profiler_doctor.analyzer.formats._bytes import Inflated
from profiler_doctor.analyzer.formats._columns import Columns
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.trace import Trace


def read_kineto(path: Path) -> Trace:
    """The trace in a kineto file."""
    text = b"".join(Inflated(path)).decode("utf-8-sig", "replace")
    try:
        document = json.loads(text, strict=False, parse_float=Decimal)
    except ValueError as error:
        raise UnreadableTrace(f"{path} breaks off: {error}.") from error
    events: list[Any] = document if isinstance(document, list) else document["traceEvents"]
    metadata = (
        {key: value for key, value in document.items() if key != "traceEvents"} if isinstance(document, dict) else {}
    )
    columns = Columns()
    columns.add_events([event for event in events if isinstance(event, dict)])
    finished = columns.events()
    return Trace(
        events=finished,
        source=str(path),
        format="kineto",
        producer=producer_of(metadata, columns.written_categories | columns.written_arguments, list(document), True),
        base_ns=base_of(metadata),
        devices=devices_of(metadata),
        metadata=metadata,
        health=missing_gpu_work(finished),
        has=what_it_holds(finished),
        rank=rank_of(metadata, str(path)),
    )


def _knows(head: bytes, path: Path) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        return b'"traceEvents"' in start or b'"schemaVersion"' in start
    ort = b'"Session"' in start or b'"Node"' in start
    return start.startswith(b"[") and b'"ph"' in start and not ort


FORMAT = Format(name="kineto", knows=_knows, read=read_kineto)
