"""A log directory for TensorBoard's profiler plugin: the trace as it stands, under a name that the plugin looks for."""

from __future__ import annotations

import re
from pathlib import Path

from profiler_doctor.analyzer.files import written_to

GZIP = b"\x1f\x8b"


def write_log(trace_file: Path, name: str, folder: Path) -> Path:
    """Copy a chrome trace to `folder/NAME/NAME.MILLISECONDS.pt.trace.json[.gz]`, whole or not at all; returns the file.

    The plugin takes each folder for a run, and what stands before the number for its worker. The number is when the
    trace was written, so a second call gives the same file. Raises CannotWrite.
    """
    content = trace_file.read_bytes()
    run = re.sub(r"[^\w-]+", "_", name.removesuffix(".gz").removesuffix(".json").removesuffix(".py")) or "trace"
    packed = ".gz" if content.startswith(GZIP) else ""
    written_ms = trace_file.stat().st_mtime_ns // 1_000_000
    return written_to(folder / run / f"{run}.{written_ms}.pt.trace.json{packed}", content)
