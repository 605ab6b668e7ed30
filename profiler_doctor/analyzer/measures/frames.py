"""The Python frames of a recording with stacks: who called whom, and which frames are the user's own code."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import PurePosixPath

import numpy as np

from profiler_doctor.analyzer.measures.nesting import Nesting, innermost_at, nest
from profiler_doctor.analyzer.trace import Bools, Ints, Trace, measure

FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.*)$", re.DOTALL)
"""How the profiler names a Python frame. The line is the function's first one, or, for a frame that was open when the
recording began, the line it stood on then."""
MODULE_FRAME = re.compile(r"nn\.Module: (?P<name>.+)$", re.DOTALL)
NOT_OWN = ("torch", "torchvision", "torchaudio", "functorch", "triton", "profiler_doctor", "nvtx", "numpy")
INSTALLED = ("site-packages", "dist-packages")
OURS = re.compile(r"profiler_doctor/(?:analyzer/capture/|notebook\.py)")
"""In the path of the frames that our own capture adds, wherever the package lies."""
STANDARD_LIBRARY = re.compile(r"/lib(?:64)?/python3(?:\.\d+)?/")


@dataclass(frozen=True, eq=False)
class Frames:
    """All Python frames of a trace; a place is an index into these arrays, -1 for none."""

    rows: Ints
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    nesting: Nesting

    def around(self, threads: Ints, times_ns: Ints) -> Ints:
        """The place of the innermost frame open on each thread at each time."""
        return innermost_at(self.thread, self.start_ns, self.end_ns, (threads, times_ns))

    def nearest(self, places: Ints, chosen: Bools) -> Ints:
        """For each place the innermost of it and its callers that is `chosen` (a mask over places)."""
        current = np.array(places, np.int64)
        climbing = np.flatnonzero(current >= 0)
        while len(climbing):
            climbing = climbing[~chosen[current[climbing]]]
            current[climbing] = self.nesting.parent[current[climbing]]
            climbing = climbing[current[climbing] >= 0]
        return current


@measure
def frames(trace: Trace) -> Frames:
    """The python_function events of a trace."""
    events = trace.events
    rows = trace.rows("python_function")
    thread, start, end = events.thread[rows].astype(np.int64), events.start_ns[rows], events.ends_at(rows)
    return Frames(rows, thread, start, end, nest(thread, start, end))


@measure
def own_frames(trace: Trace) -> Bools:
    """For every place of `frames`: whether the frame runs the user's own code."""
    return trace.events.matching_names(_is_own)[trace.events.name[frames(trace).rows]]


@measure
def module_frames(trace: Trace) -> Bools:
    """For every place of `frames`: whether the frame is the call of an nn.Module."""
    return trace.events.matching_names(MODULE_FRAME.match)[trace.events.name[frames(trace).rows]]


def place_in_source(name: str) -> tuple[str, int] | None:
    """File and line of a frame's name, None where it has none."""
    found = FRAME.match(name)
    return (found["file"], int(found["line"])) if found else None


def _is_own(name: str) -> bool:
    place = place_in_source(name)
    if place is None or name.startswith("<"):
        return False
    file = place[0].replace("\\", "/")
    if OURS.search(file) or any(f"/{folder}/" in file for folder in INSTALLED) or STANDARD_LIBRARY.search(file):
        return False
    name = _top_level(file)
    return file.startswith("/") or ":" in file[:3] or (name != "" and not _is_installed(name))


def _top_level(file: str) -> str:
    """The importable name of a path that the profiler has cut at an entry of sys.path; "" of the entry itself."""
    parts = PurePosixPath(file.removeprefix("./")).parts
    return parts[0].removesuffix(".py") if parts else ""


@cache
def _is_installed(name: str) -> bool:
    if name in NOT_OWN or name in sys.stdlib_module_names:
        return True
    try:
        spec = find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return False
    return spec is not None and any(folder in (spec.origin or "") for folder in INSTALLED)
