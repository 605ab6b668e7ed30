"""Where bytes go that a verb has made: a file, whole or not at all, else standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.files import write_whole


class CannotWrite(UserError):
    """The file that was named cannot be written."""


def put(content: bytes, out: Path | None) -> None:
    """Write to `out`, or to standard output where it is None. Raises CannotWrite."""
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(out, content)
    except OSError as error:
        raise CannotWrite(f"{out} cannot be written: {error.strerror or error}.") from error
