"""Events that come as whole columns (a table of a database, a line of a profile) on their way into a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._holds import left_out
from profiler_doctor.analyzer.formats._notes import notes
from profiler_doctor.analyzer.formats._times import NEVER
from profiler_doctor.analyzer.formats._values import Values
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import NO_DURATION, Bools, Codes, Column, Events, Ints, interned

ThreadKey = tuple[int | str, int | str]
Words = tuple[Codes, tuple[str, ...]]
"""Codes and the table they point into, as `trace.interned` gives them."""
PROCESS_APART = 1 << 40
"""Correlation ids count from 1 in every process (32 bits at CUPTI): so much is added for every further process."""
CORE = {"phase": np.uint8, "category": np.int32, "name": np.int32, "thread": np.int32, "start_ns": np.int64,
        "dur_ns": np.int64}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slice:
    """One event as a reader of records finds it; arguments that are None are absent."""

    name: str
    thread: ThreadKey
    start_ns: int
    end_ns: int
    arguments: Mapping[str, object]


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """Events of one category. The rows of the arguments count from 0 within the block."""

    category: str
    names: Words
    threads: Sequence[ThreadKey]
    thread: Codes
    """Codes into `threads`."""
    start_ns: Ints
    end_ns: Ints
    arguments: Mapping[str, Column] = field(default_factory=dict)
    phase: str = "X"

    def where(self, chosen: Bools) -> Block:
        """The chosen events alone."""
        if chosen.all():
            return self
        return replace(
            self,
            names=(self.names[0][chosen], self.names[1]),
            thread=self.thread[chosen],
            start_ns=self.start_ns[chosen],
            end_ns=self.end_ns[chosen],
            arguments={name: _chosen(column, chosen) for name, column in self.arguments.items()},
        )


@dataclass
class Table:
    """The growing columns of a trace; `trouble` counts what could not be taken as written."""

    pieces: dict[str, list[npt.NDArray[Any]]] = field(default_factory=lambda: {name: [] for name in CORE})
    categories: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    threads: dict[ThreadKey, int] = field(default_factory=dict)
    arguments: dict[str, Values] = field(default_factory=dict)
    trouble: Counter[str] = field(default_factory=Counter)
    length: int = 0

    def add(self, block: Block) -> None:
        """Append a block. Events without a possible time are left out and counted, negative durations set to 0."""
        sane = (np.abs(block.start_ns) < NEVER) & (np.abs(block.end_ns) < NEVER)
        block = block.where(sane)
        backwards = block.end_ns < block.start_ns
        self.trouble["dropped"] += int(np.count_nonzero(~sane))
        self.trouble["negative"] += int(np.count_nonzero(backwards))
        for name, piece in self._core(block, backwards).items():
            self.pieces[name].append(np.asarray(piece, CORE[name]))
        for name, column in block.arguments.items():
            self.arguments.setdefault(name, Values()).add_column(column, self.length)
        self.length += len(block.start_ns)

    def _core(self, block: Block, backwards: Bools) -> dict[str, npt.NDArray[Any]]:
        length = len(block.start_ns)
        duration = np.where(backwards, 0, block.end_ns - block.start_ns)
        names = [self.names.setdefault(name, len(self.names)) for name in block.names[1]]
        threads = [self.threads.setdefault(key, len(self.threads)) for key in block.threads]
        return {
            "phase": np.full(length, ord(block.phase)),
            "category": np.full(length, self.categories.setdefault(block.category, len(self.categories))),
            "name": np.array(names, np.int32)[block.names[0]],
            "thread": np.array(threads, np.int32)[block.thread],
            "start_ns": block.start_ns,
            "dur_ns": duration if block.phase == "X" else np.full(length, NO_DURATION),
        }

    def events(self, path: Path) -> Events:
        """The finished columns by start, the longer event first where two start together: callers precede callees.

        Raises UnreadableTrace where there is no event.
        """
        if not self.length:
            raise UnreadableTrace(f"{path} is a profile without events: nothing ran while it was recorded.")
        core = {name: np.concatenate(pieces) for name, pieces in self.pieces.items()}
        order = np.lexsort((-core["dur_ns"], core["start_ns"]))
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        found = Events(
            **{name: column[order] for name, column in core.items()},
            categories=tuple(self.categories),
            names=tuple(self.names),
            threads=tuple(self.threads),
            arguments={name: _moved(values.column(), row_of) for name, values in self.arguments.items()},
        )
        return left_out(found, self.trouble)

    def notes(self) -> tuple[HealthNote, ...]:
        """What had to be left out or repaired, in sentences with counts."""
        number = self.trouble["fraction"]
        said = f"{number} events have times finer than a nanosecond; start and end are each rounded down to one."
        floored = (HealthNote(code="TIMES-FLOORED", message=said, events=number),) if number else ()
        return (*notes(self.trouble), *floored)


def block_of(category: str, slices: Sequence[Slice], phase: str = "X") -> Block:
    """Events of one category, found one by one, as a block."""
    threads: dict[ThreadKey, int] = {}
    codes = [threads.setdefault(slice_.thread, len(threads)) for slice_ in slices]
    return Block(
        category=category,
        names=interned([slice_.name for slice_ in slices]),
        threads=tuple(threads),
        thread=np.array(codes, np.int32),
        start_ns=_times([slice_.start_ns for slice_ in slices]),
        end_ns=_times([slice_.end_ns for slice_ in slices]),
        arguments=_arguments(slices),
        phase=phase,
    )


def _arguments(slices: Sequence[Slice]) -> dict[str, Column]:
    found: dict[str, tuple[list[int], list[object]]] = {}
    for row, slice_ in enumerate(slices):
        for name, value in slice_.arguments.items():
            if value is not None:
                rows, values = found.setdefault(name, ([], []))
                rows.append(row)
                values.append(value)
    columns = {name: Values() for name in found}
    for name, (rows, values) in found.items():
        columns[name].add_mixed(rows, values)
    return {name: values.column() for name, values in columns.items()}


def _times(values: Sequence[int]) -> Ints:
    return np.array([value if abs(value) < NEVER else NEVER for value in values], np.int64)


def _chosen(column: Column, chosen: Bools) -> Column:
    kept = chosen[column.rows]
    return Column((np.cumsum(chosen) - 1)[column.rows[kept]], column.values[kept], column.table)


def _moved(column: Column, row_of: Ints) -> Column:
    rows = row_of[column.rows]
    order = np.argsort(rows, kind="stable")
    return Column(rows[order], column.values[order], column.table)
