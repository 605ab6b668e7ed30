"""A trace in columns: integer nanoseconds, names as codes, arguments only where an event has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.model import HealthNote

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
R = TypeVar("R")

DENSE = 16
"""Whoever asks for more than one row in so many is answered from an array of all rows: faster than a search."""
NO_DURATION = -1
"""The `dur_ns` of an event that has none (instants, flows, metadata)."""
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of work on a device."""
HOST_CALLS = ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_runtime")
"""Categories of calls from the host into a device's runtime or driver (ROCm's are `cuda_runtime`)."""


@dataclass(frozen=True, eq=False)
class Column:
    """One argument of the events that have it. `rows` ascend; `values` are numbers, or codes into `table` (text).

    Whole numbers and rows are of 32 or 64 bits: ask `at`, which always gives 64.
    """

    rows: npt.NDArray[np.signedinteger[Any]]
    values: npt.NDArray[Any]
    table: tuple[str, ...] | None = None

    def at(self, rows: npt.ArrayLike, default: int) -> Ints:
        """The integer values (or codes) at `rows`, `default` where an event lacks the argument."""
        wanted = np.asarray(rows, dtype=np.int64)
        if len(self.rows) and wanted.size > self.rows[-1] // DENSE and wanted.min() >= 0:
            kind = self.values.dtype if self.values.dtype == np.int32 and abs(default) < 1 << 31 else np.int64
            every = np.full(int(max(self.rows[-1], wanted.max())) + 1, default, dtype=kind)
            every[self.rows] = self.values
            return every[wanted].astype(np.int64, copy=False)
        found = np.full(wanted.shape, default, dtype=np.int64)
        if len(self.rows):
            place = np.minimum(np.searchsorted(self.rows, wanted.astype(self.rows.dtype)), len(self.rows) - 1)
            hit = self.rows[place] == wanted
            found[hit] = self.values[place[hit]]
        return found

    def text_at(self, row: int) -> str | None:
        """The text at one row, None where the event lacks it. JSON values other than strings stay JSON text."""
        place = int(np.searchsorted(self.rows, self.rows.dtype.type(row)))
        if place == len(self.rows) or self.rows[place] != row:
            return None
        value = self.values[place]
        return str(value) if self.table is None else self.table[int(value)]


EMPTY_COLUMN = Column(np.empty(0, np.int64), np.empty(0, np.int64), None)
EMPTY_TEXT = Column(np.empty(0, np.int64), np.empty(0, np.int32), ())


@dataclass(frozen=True, eq=False)
class Events:
    """All events of a trace in file order; an event's place in it is its `row` everywhere in the program.

    Codes point into the tables of the same name. `category` is in today's kineto terms whatever the file's age.
    """

    phase: npt.NDArray[np.uint8]
    """ord() of the chrome phase: X, i, M, s, f, C, …; 0 where the event has none."""
    category: Codes
    name: Codes
    thread: Codes
    start_ns: Ints
    """As the file has it, in ns; `Trace.base_ns` more is wall-clock time. 0 for events without a time."""
    dur_ns: Ints
    """NO_DURATION where the event has none."""
    categories: tuple[str, ...]
    names: tuple[str, ...]
    threads: tuple[tuple[int | str, int | str], ...]
    """(pid, tid) as in the file, int or str."""
    arguments: Mapping[str, Column] = field(default_factory=dict)
    """Argument name in today's kineto terms ("External id", "correlation", "Input Dims", …) → its column."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def ends_at(self, rows: npt.ArrayLike) -> Ints:
        """The ends of many events, as `end_ns` has them."""
        wanted = np.asarray(rows, dtype=np.int64)
        ends: Ints = self.start_ns[wanted] + np.maximum(self.dur_ns[wanted], 0)
        return ends

    @property
    def end_ns(self) -> Ints:
        """Start plus duration; the start itself where there is none. Worked out anew each time: see `ends_at`."""
        return self.start_ns + np.maximum(self.dur_ns, 0)

    def name_of(self, row: int) -> str:
        """The name of one event."""
        return self.names[int(self.name[row])]

    def category_of(self, row: int) -> str:
        """The category of one event, "" where it has none."""
        return self.categories[int(self.category[row])]

    def names_at(self, rows: npt.ArrayLike) -> list[str]:
        """The names of many events."""
        return [self.names[code] for code in self.name[np.asarray(rows, dtype=np.int64)]]

    def matching_names(self, test: Callable[[str], object]) -> Bools:
        """For every code of the name table, whether `test` holds; index it with `name` codes."""
        return np.fromiter((bool(test(name)) for name in self.names), dtype=np.bool_, count=len(self.names))

    def column(self, argument: str) -> Column:
        """The numeric column of an argument; empty where no event has it."""
        return self.arguments.get(argument, EMPTY_COLUMN)

    def text(self, argument: str) -> Column:
        """The text column of an argument; empty where no event has it, or where all that have it have a number."""
        column = self.arguments.get(argument, EMPTY_TEXT)
        return column if column.table is not None else EMPTY_TEXT


@dataclass(frozen=True)
class Device:
    """One entry of the trace's device properties."""

    id: int
    name: str
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    memory_bytes: int | None = None
    vendor: str = ""
    """`nvidia`, `amd`, `intel`, "" unknown."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One recorded run of one process. Reading is done; nothing here changes any more."""

    events: Events
    source: str
    """Path of the file, or "<memory>"."""
    format: str
    producer: str = ""
    """A guess in words: "looks like PyTorch 2.4-2.7"; never a version as fact."""
    base_ns: int = 0
    devices: tuple[Device, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Everything at the top level of the file beside the events."""
    health: tuple[HealthNote, ...] = ()
    has: frozenset[Has] = frozenset()
    rank: int | None = None
    facts: Facts | None = None
    stacks: Trace | None = None
    """A second, short recording of the same program with Python stacks; its times are not to be believed."""
    peers: tuple[Trace, ...] = field(default=(), repr=False)
    """The same run as the job's other ranks recorded it."""
    cache: dict[object, object] = field(default_factory=dict, repr=False)
    """Results of measures, by measure and arguments; see `measure`."""

    def with_capture(self, facts: Facts | None, stacks: Trace | None) -> Trace:
        """The same trace, joined with what our capture recorded beside it. Nothing measured before is carried over."""
        has = self.has | ({Has.CAPTURE} if facts else frozenset()) | ({Has.STACKS} if stacks else frozenset())
        return replace(self, facts=facts, stacks=stacks, has=has, cache={})

    def rows(self, *categories: str) -> Ints:
        """Rows of complete events (phase X) of the given categories, in file order."""
        return _in_order([_rows_of(self, category) for category in self._there(categories)])

    def rows_named(self, test: Callable[[str], object], among: Iterable[str]) -> Ints:
        """Rows of complete events of the categories `among` whose name passes `test`."""
        found = []
        for category in self._there(among):
            passing = [code for code in _names_of(self, category) if test(self.events.names[code])]
            if passing:  # most tests hold for no name at all
                passes = np.zeros(len(self.events.names), np.bool_)
                passes[passing] = True
                rows = _rows_of(self, category)
                found.append(rows[passes[self.events.name[rows]]])
        return _in_order(found)

    def _there(self, categories: Iterable[str]) -> list[str]:
        return sorted(frozenset(categories) & frozenset(self.events.categories))


def measure(function: Callable[..., R]) -> Callable[..., R]:
    """Remember a measure's result on its trace: every rule may ask for it, it is worked out once.

    The first argument is the trace; the others must be hashable. Results are shared, so nobody may change them.
    """

    @wraps(function)
    def remembered(trace: Trace, *arguments: object) -> R:
        key = (function.__module__, function.__qualname__, arguments)
        if key not in trace.cache:
            trace.cache[key] = function(trace, *arguments)
        return trace.cache[key]  # type: ignore[return-value]  # as above

    return remembered


@measure
def _rows_of(trace: Trace, category: str) -> Codes:
    """The rows of one category; kept in 32 bits, where those of several together are soon put in order again."""
    events = trace.events
    found = np.flatnonzero((events.category == events.categories.index(category)) & (events.phase == ord("X")))
    return found.astype(np.int32)


@measure
def _names_of(trace: Trace, category: str) -> tuple[int, ...]:
    """The codes of the names that the events of one category have."""
    return tuple(np.flatnonzero(np.bincount(trace.events.name[_rows_of(trace, category)])).tolist())


def _in_order(parts: Sequence[Codes]) -> Ints:
    """Rows of several categories together, each in order; a new array, which its taker may change."""
    if len(parts) == 1:
        return parts[0].astype(np.int64)
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]), kind="stable")


def forget(trace: Trace, *measures: Callable[..., object]) -> None:
    """Drop what is remembered of these measures: nobody is likely to ask again, and who does has it worked out anew."""
    names = {(function.__module__, function.__qualname__) for function in measures}
    for key in [key for key in trace.cache if isinstance(key, tuple) and key[:2] in names]:
        del trace.cache[key]


def interned(values: Sequence[str]) -> tuple[Codes, tuple[str, ...]]:
    """Codes and the table of distinct values, in order of first appearance."""
    table: dict[str, int] = {}
    codes = np.fromiter((table.setdefault(value, len(table)) for value in values), dtype=np.int32, count=len(values))
    return codes, tuple(table)


def empty_trace(source: str) -> Trace:
    """A trace that holds nothing: what there is when a run could not be recorded. Rules that need events skip."""
    no_ints, no_codes = np.empty(0, np.int64), np.empty(0, np.int32)
    events = Events(
        phase=np.empty(0, np.uint8),
        category=no_codes,
        name=no_codes,
        thread=no_codes,
        start_ns=no_ints,
        dur_ns=no_ints,
        categories=(),
        names=(),
        threads=(),
    )
    return Trace(events=events, source=source, format="none")
