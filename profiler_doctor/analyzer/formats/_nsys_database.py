"""The tables of an Nsight Systems export, whichever columns its schema has, and its ways of naming things."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from profiler_doctor.analyzer.formats._blocks import PROCESS_APART, Words
from profiler_doctor.analyzer.trace import Column, Ints, interned

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database raises; the second where the library cannot even decode its own complaint."""
MOST = (1 << 63) - 1
"""Stands for an absent number while a column is sorted out."""
ROWS_AT_ONCE = 1 << 16
PROCESS_SHIFT, ID_MASK = 24, (1 << 24) - 1
"""A global thread id is (…, 24 bits of process id, 24 bits of thread id), as Nsight's documentation has it."""
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@dataclass(frozen=True)
class Batch:
    """Some rows of a table as columns."""

    values: Mapping[str, tuple[Any, ...]]
    length: int

    def ints(self, name: str, missing: int = 0) -> Ints:
        """A column as integers, `missing` for what is none."""
        values = self.values[name]
        try:
            return np.array(values, np.int64)
        except (TypeError, ValueError, OverflowError):
            fits = (isinstance(value, int) and abs(value) < MOST for value in values)
            return np.array([value if fit else missing for value, fit in zip(values, fits, strict=True)], np.int64)

    def numbers(self, name: str, *, zero: bool = True) -> Column:
        """The integers of a column where there is one; `zero` False leaves zeros out, which mean none there."""
        values = self.ints(name, MOST)
        there = np.flatnonzero((values != MOST) & (zero | (values != 0)))
        return Column(there, values[there], None)

    def of_each(self, names: Sequence[str], function: Callable[..., str]) -> Words:
        """A text for every row, worked out once for every combination of values that occurs in the columns."""
        known: dict[tuple[Any, ...], int] = {}
        rows = zip(*(self.values[name] for name in names), strict=True)
        codes = np.fromiter((known.setdefault(row, len(known)) for row in rows), np.int32, count=self.length)
        renamed, table = interned([function(*row) for row in known])
        return renamed[codes], table


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

    def batches(self, table: str, wanted: Sequence[str]) -> Iterator[Batch]:
        """The wanted columns of all rows, some thousands at once; all None for a column that this schema lacks."""
        if table not in self.tables:
            return
        self._read.add(table)
        there = self.columns(table)
        chosen = ", ".join(_quoted(name) if name in there else "NULL" for name in wanted)
        try:
            cursor = self._connection.execute(f"SELECT {chosen} FROM {_quoted(table)}")  # noqa: S608  # names are quoted
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                yield Batch(dict(zip(wanted, zip(*rows, strict=True), strict=True)), len(rows))
        except FAULTS:
            self.damaged.add(table)

    def rows(self, table: str, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """As `batches`, row by row."""
        for batch in self.batches(table, wanted):
            yield from zip(*(batch.values[name] for name in wanted), strict=True)

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

    def correlation(self, written: Ints, process: Ints) -> Column:
        """Correlation ids that no two processes share, where there are any."""
        known, which = np.unique(process, return_inverse=True)
        places = np.array([self.place_of(pid) for pid in known.tolist()], np.int64)
        there = np.flatnonzero(written > 0)
        return Column(there, (written + places[which] * PROCESS_APART)[there], None)

    @cached_property
    def many_processes(self) -> bool:
        """Whether several processes used GPUs: each counts its devices for itself, from 0."""
        return len({global_ for (global_,) in self.rows(KERNELS, ("globalPid",))}) > 1

    @cached_property
    def _gpus(self) -> Mapping[tuple[int, int], int]:
        """(process, its number of a device) → number of the GPU in the machine."""
        known = self.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        return {(pid, device): gpu for pid, device, gpu in known if isinstance(gpu, int)}

    def devices(self, written: Ints, process: Ints) -> Ints:
        """Numbers of devices: as written, or, with several processes, the GPUs' numbers in the machine."""
        if not self.many_processes:
            return written
        pairs, which = np.unique(np.column_stack((process, written)), axis=0, return_inverse=True)
        numbers = [self._gpus.get((pid, device), device) for pid, device in pairs.tolist()]
        return np.array(numbers, np.int64)[which.reshape(-1)]

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


def processes(global_ids: Ints) -> Ints:
    """Process ids of global ids; 0 where there is none."""
    return global_ids >> PROCESS_SHIFT & ID_MASK


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
