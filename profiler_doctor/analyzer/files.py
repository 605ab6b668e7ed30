"""Files that are either whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from profiler_doctor.analyzer.errors import CannotWrite


def write_whole(path: Path, content: bytes) -> Path:
    """Write `content` so that nobody ever sees half of it, and return `path`. Makes the folder where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def written_to(path: Path, content: bytes) -> Path:
    """As `write_whole`, of a path that the user chose. Raises CannotWrite."""
    try:
        return write_whole(path, content)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be written: {error.strerror or error}.") from error
