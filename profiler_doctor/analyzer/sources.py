"""The traces of one job, from whatever the user named: read side by side, told apart by rank, on one clock."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.errors import UnreadableTrace, UserError
from profiler_doctor.analyzer.formats._bytes import first_bytes
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.ranks import on_one_clock, with_peers, with_ranks
from profiler_doctor.analyzer.reading import FORMATS, read
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.analyzer.unpacking import File, Workspace, local_files

READERS = 2
"""Processes that read at once: each holds a whole trace, and further ones gain little on a disk that they share."""
MOST_NAMED = 5
"""Files that a note names before it only counts."""


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that was recorded of one run: a trace a rank, by rank, and what must be said of them together."""

    traces: tuple[Trace, ...]
    health: tuple[HealthNote, ...] = ()


def traces(inputs: Sequence[str | Path], stdin: IO[bytes] | None = None) -> Job:
    """The traces in files, folders, zip and tar archives, addresses (`s3://…`) and standard input (`-`).

    All belong to one job: its ranks are told by what the traces say, else by their names, else by their order, and
    their times are set on one clock (same `base_ns`) where they have wall-clock times. Raises UnreadableTrace where
    an input is not there, or where nothing in it can be read.
    """
    with TemporaryDirectory(prefix="profiler-doctor-") as folder:
        files = local_files(inputs, Workspace(Path(folder), stdin or sys.stdin.buffer))
        chosen, notes = _that_are_traces(files)
        found = list(_read_side_by_side(chosen))
    read_traces = [each for each in found if isinstance(each, Trace)]
    faults = [each for each in found if isinstance(each, str)]
    if not read_traces:
        raise UnreadableTrace(faults[0] if faults else _nothing(inputs))
    notes += [HealthNote(code="FILE-UNREADABLE", message=fault, events=0) for fault in faults]
    named, rank_notes = with_ranks(read_traces)
    aligned, clock_notes = on_one_clock(named)
    return Job(tuple(with_peers(aligned)), (*notes, *rank_notes, *clock_notes))


def _that_are_traces(files: Sequence[File]) -> tuple[list[File], list[HealthNote]]:
    """The files to read. What the user named alone is always read, so that its fault is told."""
    formats = {file: _format_of(file) for file in files}
    binary = {file.folder for file, name in formats.items() if name == "xplane"}
    twins = [file for file, name in formats.items() if name == "jax_json" and not file.alone and file.folder in binary]
    others = [file for file, name in formats.items() if name is None and not file.alone]
    kept = [file for file in files if file not in twins and file not in others]
    return kept, [
        *_note("FILES-LEFT-OUT", others, "no traces"),
        *_note("FILES-TWICE", twins, "the same as an xplane.pb"),
    ]


def _format_of(file: File) -> str | None:
    try:
        head = first_bytes(file.path)
    except OSError:
        return None
    formats = plugins.find(FORMATS, Format).items
    return next((known.name for known in formats if known.knows(head, file.path)), None)


def _note(code: str, files: Sequence[File], what: str) -> Iterator[HealthNote]:
    if files:
        shown = ", ".join(file.name for file in files[:MOST_NAMED])
        more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
        yield HealthNote(
            code=code, message=f"{len(files)} files are {what} and were not read: {shown}{more}.", events=0
        )


def _nothing(inputs: Sequence[str | Path]) -> str:
    return f"{', '.join(map(str, inputs)) or 'Nothing'}: there is no trace in it that a reader here knows."


def _read_side_by_side(files: Sequence[File]) -> Iterable[Trace | str]:
    """A trace a file, or the sentence that says why there is none."""
    if len(files) < READERS:
        return [_read(file) for file in files]
    try:
        with ProcessPoolExecutor(min(READERS, len(files)), mp_context=get_context("spawn")) as readers:
            return list(readers.map(_read, files))
    except BrokenProcessPool:  # a reader was ended from outside, or the caller's script has no __main__ guard
        return [_read(file) for file in files]


def _read(file: File) -> Trace | str:
    try:
        return replace(read(file.path), source=file.name)
    except UserError as error:
        return str(error).replace(str(file.path), file.name)
