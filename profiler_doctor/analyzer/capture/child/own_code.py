"""Which line of the user's own code is at work right now."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType

from profiler_doctor.analyzer.capture.child.standard import standard

OURS = str(Path(__file__).parents[2])
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
STANDARD = tuple(standard("sysconfig").get_paths()[name] for name in ("stdlib", "platstdlib"))
JAXS_OWN = f"{os.sep}jax{os.sep}_src{os.sep}"
"""In the paths of JAX's own files."""
Place = tuple[str, int]
"""File, shortened as torch's profiler shortens it, and line; ("", 0) unknown."""


def own_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame and its callers, innermost first, without those of installed packages and ours."""
    while frame is not None:
        if is_own_file(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def own_place(frame: FrameType | None) -> Place:
    """The innermost line of the user's own code."""
    own = next(own_frames(frame), None)
    return (short(own.f_code.co_filename), own.f_lineno) if own is not None else ("", 0)


def short(file: str) -> str:
    """The path below the entry of `sys.path` that it lies in."""
    for entry in filter(None, sys.path):
        if file.startswith(entry + os.sep):
            return file[len(entry) + 1 :]
    return file


@cache
def is_own_file(file: str) -> bool:
    """Whether a source file is neither Python's nor an installed package's nor ours."""
    if file.startswith(("<", OURS)) or any(part in file for part in INSTALLED):
        return False
    return not file.startswith(STANDARD)


@cache
def is_own_name(file: str) -> bool:
    """The same of a path as torch's profiler shortens it."""
    if not file or file.startswith("<"):
        return False
    places = (Path(entry, file) for entry in sys.path if entry)  # an absolute path stays what it is
    found = next((place for place in places if place.is_file()), None)
    return found is not None and is_own_file(str(found))
