"""Traces are kept as gzip: a twentieth of the size for a fraction of a second."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from isal import igzip

LEVEL = 1
"""Of 0 to 3; beyond it the file hardly shrinks."""
CHUNK = 1 << 20


def pack(plain: Path, packed: Path) -> Path:
    """Compress `plain` to `packed`, whole or not at all, and remove it."""
    part = packed.with_name(f"{packed.name}.{os.getpid()}.part")
    try:
        zipped = igzip.IGzipFile(str(part), "wb", LEVEL)  # type: ignore[no-untyped-call]  # isal declares no types
        with plain.open("rb") as source, zipped as target:
            shutil.copyfileobj(source, target, CHUNK)
        part.replace(packed)
    finally:
        part.unlink(missing_ok=True)
    plain.unlink()
    return packed
