"""The tables of an Nsight Systems export, whichever columns its schema has, and its ways of naming things."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from profiler_doctor.analyzer.formats._blocks import PROCESS_APART

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database raises; the second where the library cannot even decode its own complaint."""
ROWS_AT_ONCE = 1 << 16
PROCESS_SHIFT, ID_MASK = 24, (1 << 24) - 1
"""A global thread id is (…, 24 bits of process id, 24 bits of thread id), as Nsight's documentation has it."""
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


class Database:
    """An open export. It remembers which tables were read and which process came in which place."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._read: set[str] = set()
        self.damaged: set[str] = set()
        """Tables that could be read in part, at most."""
        self._places: dict[int, int] = {}
        named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = frozenset(str(name) for (name,) in named)

    def columns(self, table: str) -> frozenset[str]:
        """The columns that a table has here."""
        return frozenset(row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})"))

    def batches(self, table: str, wanted: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        """The wanted columns of all rows, some thousands at once; None for a column that this schema lacks."""
        if table not in self.tables:
            return
        self._read.add(table)
        there = self.columns(table)
        chosen = ", ".join(_quoted(name) if name in there else "NULL" for name in wanted)
        try:
            cursor = self._connection.execute(f"SELECT {chosen} FROM {_quoted(table)}")  # noqa: S608  # names are quoted
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield rows
        except FAULTS:
            self.damaged.add(table)

    def rows(self, table: str, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """As `batches`, row by row."""
        for batch in self.batches(table, wanted):
            yield from batch

    def pairs(self, table: str) -> Mapping[str, str]:
        """A table of names and values."""
        return {str(name): str(value) for name, value in self.rows(table, ("name", "value"))}

    @cached_property
    def strings(self) -> Mapping[int, str]:
        """The texts that the other tables refer to by number."""
        return {key: str(value) for key, value in self.rows("StringIds", ("id", "value"))}

    def text(self, *candidates: object) -> str:
        """The first candidate that is a text, or the number of one; "" where none is."""
        for candidate in candidates:
            if isinstance(candidate, str) and candidate:
                return candidate
            if isinstance(candidate, int) and candidate in self.strings:
                return self.strings[candidate]
        return ""

    def place_of(self, process: int) -> int:
        """The place of a process among those seen so far; its correlation ids are set apart by it."""
        return self._places.setdefault(process, len(self._places))

    def correlation(self, written: object, process: int) -> int | None:
        """A correlation id that no other process has; None where there is none."""
        return written + self.place_of(process) * PROCESS_APART if isinstance(written, int) and written > 0 else None

    @cached_property
    def many_processes(self) -> bool:
        """Whether several processes used GPUs: each counts its devices for itself, from 0."""
        return len({global_ for (global_,) in self.rows(KERNELS, ("globalPid",))}) > 1

    @cached_property
    def _gpus(self) -> Mapping[tuple[int, int], int]:
        """(process, its number of a device) → number of the GPU in the machine."""
        known = self.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        return {(pid, device): gpu for pid, device, gpu in known if isinstance(gpu, int)}

    def device(self, written: object, process: int) -> int:
        """The number of a device: as written, or, with several processes, the GPU's number in the machine."""
        number = written if isinstance(written, int) else 0
        return self._gpus.get((process, number), number) if self.many_processes else number

    def devices_of(self, gpu: int) -> list[int]:
        """The numbers under which a GPU appears in the events."""
        if self.many_processes or not self._gpus:
            return [gpu]
        return sorted({device for (_, device), number in self._gpus.items() if number == gpu})

    def not_read(self) -> Mapping[str, int]:
        """Tables of events that nobody asked for, and how many rows each has."""
        counted = {table: self._length(table) for table in sorted(self.tables - self._read)}
        return {table: number for table, number in counted.items() if number}

    def _length(self, table: str) -> int:
        """Rows of a table of events, 0 for any other. The last row's number, because counting walks the whole table."""
        try:
            if not {"start", "timestamp"} & self.columns(table):
                return 0
            found = self._connection.execute(f"SELECT max(rowid) FROM {_quoted(table)}")  # noqa: S608  # quoted
            return int(found.fetchone()[0] or 0)
        except FAULTS:  # a table of an extension that is not here
            return 0


def process_and_thread(global_id: object) -> tuple[int, int]:
    """(process id, thread id) of a global id; (0, 0) where there is none."""
    number = global_id if isinstance(global_id, int) else 0
    return number >> PROCESS_SHIFT & ID_MASK, number & ID_MASK


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
