"""Where bytes go that a verb has made: a file, whole or not at all, else standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from profiler_doctor.analyzer.files import written_to


def put(content: bytes, out: Path | None) -> None:
    """Write to `out`, or to standard output where it is None. Raises CannotWrite."""
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    written_to(out, content)
