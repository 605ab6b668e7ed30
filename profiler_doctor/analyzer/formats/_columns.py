"""The columns of a trace while they grow: events go in as they are read, frozen columns come out at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from profiler_doctor.analyzer.formats._arguments import Argument, Array, Texts, joined
from profiler_doctor.analyzer.formats._codes import Categories, Phases, Threads
from profiler_doctor.analyzer.formats._growing import Growing
from profiler_doctor.analyzer.formats._terms import ARGUMENTS, LEGACY_PROCESSES
from profiler_doctor.analyzer.formats._times import ABSENT, exact_ns_of_all
from profiler_doctor.analyzer.trace import NO_DURATION, Column, Events, Ints

CORE = {"phase": np.uint8, "category": np.int32, "name": np.int32, "thread": np.int32, "start_ns": np.int64,
        "dur_ns": np.int64}  # fmt: skip
GATHER_EVERY = 8
"""Runs of events after which the pieces of their arguments are put behind those of earlier runs."""
WITHOUT_CATEGORY = "[memory]"
"""PyTorch 1.9 to 1.11 wrote no category for it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Core:
    """What every event has, as arrays; times in ns, ABSENT where there is none."""

    phase: Array
    category: Array
    name: Array
    thread: Array
    start_ns: Ints
    dur_ns: Ints
    no_start: Ints
    """Places whose start was written, but is no time."""
    no_duration: Ints


@dataclass
class Columns:
    """Core columns as lists of pieces, arguments by today's name, and counts of what could not be taken as written."""

    names: Texts = field(default_factory=Texts)
    category_texts: Texts = field(default_factory=Texts)
    phases: Phases = field(default_factory=Phases)
    threads: Threads = field(default_factory=Threads)
    core: dict[str, Growing] = field(default_factory=lambda: {name: Growing(kind) for name, kind in CORE.items()})
    arguments: dict[str, Argument] = field(default_factory=dict)
    written_arguments: set[str] = field(default_factory=set)
    trouble: Counter[str] = field(default_factory=Counter)
    length: int = 0
    runs: int = 0
    categories: Categories = field(init=False)

    def __post_init__(self) -> None:
        self.categories = Categories(self.category_texts)

    def argument(self, written: str) -> Argument:
        """The growing column of an argument, under today's name."""
        self.written_arguments.add(written)
        name = ARGUMENTS.get(written, written)
        if name not in self.arguments:
            self.arguments[name] = Argument(name)
        return self.arguments[name]

    def add_core(self, core: Mapping[str, Sequence[Any]]) -> None:
        """Append events by their values as written under ph, cat, name, pid, tid, ts, dur.

        ts and dur are numbers with ABSENT for missing ones. Raises NeedsDecimals before anything is added.
        """
        start, no_start = exact_ns_of_all(core["ts"])
        duration, no_duration = exact_ns_of_all(core["dur"])
        count = len(core["ph"])
        pairs = zip(core["pid"], core["tid"], strict=True)
        self.append(
            Core(
                phase=np.fromiter(map(self.phases.__getitem__, core["ph"]), np.uint8, count),
                category=np.fromiter(map(self.categories.__getitem__, core["cat"]), np.int32, count),
                name=np.fromiter(map(self.names.__getitem__, core["name"]), np.int32, count),
                thread=np.fromiter(map(self.threads.__getitem__, pairs), np.int32, count),
                start_ns=start,
                dur_ns=duration,
                no_start=no_start,
                no_duration=no_duration,
            )
        )

    def append(self, core: Core) -> None:
        """Append events that are columns already; the arguments of all earlier ones must have been handed in."""
        self.runs += 1
        if self.runs % GATHER_EVERY == 0:
            for argument in self.arguments.values():
                argument.gather()
        self.core["phase"].append(self._timed(core.phase, core.start_ns, core.no_duration))
        self.core["category"].append(core.category)
        self.core["name"].append(core.name)
        self.core["thread"].append(core.thread)
        self.core["start_ns"].append(np.where(core.start_ns == ABSENT, 0, core.start_ns))
        self.core["dur_ns"].append(self._durations(core.dur_ns))
        self.trouble["time"] += len(core.no_start) + len(core.no_duration)
        self.length += len(core.phase)

    def _timed(self, phase: Array, start: Ints, no_duration: Ints) -> Array:
        """Phases, 0 for a complete event that has no time: no measure takes it then."""
        lost = (phase == ord("X")) & (start == ABSENT)
        lost[no_duration] = True
        self.trouble["untimed"] += int(lost.sum())
        return np.where(lost, 0, phase).astype(np.uint8)

    def _durations(self, duration: Ints) -> Ints:
        missing = duration == ABSENT
        negative = ~missing & (duration < 0)
        self.trouble["negative"] += int(negative.sum())
        return np.where(missing, NO_DURATION, np.maximum(duration, 0))

    def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Events as a JSON reader gives them: the careful way, for what the fast way does not take."""
        first = self.length
        core = {key: [event.get(key) for event in events] for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur")}
        core["name"] = [name if isinstance(name, str) else "" for name in core["name"]]
        core["cat"] = [cat if isinstance(cat, str) else None for cat in core["cat"]]
        core["ph"] = [phase if isinstance(phase, str) else None for phase in core["ph"]]
        core["pid"], core["tid"] = ([_hashable(part) for part in core[side]] for side in ("pid", "tid"))
        core["ts"], core["dur"] = ([_single(value) for value in core[time]] for time in ("ts", "dur"))
        self.add_core(core)
        self._add_arguments(first, events)

    def _add_arguments(self, first: int, events: Sequence[Mapping[str, Any]]) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = {}
        for row, event in enumerate(events, first):
            arguments = event.get("args")
            pairs = list(arguments.items()) if isinstance(arguments, dict) else []
            for written, value in (*pairs, ("id", event.get("id"))):
                if value is not None:
                    where, values = found.setdefault(written, ([], []))
                    where.append(row)
                    values.append(value)
        for written, (where, values) in found.items():
            self.argument(written).add_values(where, values)

    def events(self) -> Events:
        """The finished columns; the growing ones are used up."""
        core = {name: self.core.pop(name).values.astype(CORE[name], copy=False) for name in CORE}
        names, categories = self.names.table, list(self.category_texts.table)
        _fill_categories(core, names, categories, tuple(self.threads.known))
        arguments = self._finished_arguments()
        return Events(
            **core,
            categories=tuple(categories),
            names=names,
            threads=tuple(self.threads.known),
            arguments=arguments,
        )

    def _finished_arguments(self) -> dict[str, Column]:
        finished: dict[str, Column] = {}
        known: dict[tuple[int, ...], list[Array]] = {}
        for name in list(self.arguments):
            argument = self.arguments.pop(name)
            argument.gather()
            self.trouble["argument"] += argument.settle()
            if argument.pieces:  # none where all that was written is null, or no number
                finished[name] = _column(argument, known)
        return finished


def _column(argument: Argument, known: dict[tuple[int, ...], list[Array]]) -> Column:
    """One array of rows and one of values; the rows are those in `known` where they are the same, as kernels' are."""
    whole = joined(argument.pieces)
    alike = known.setdefault((len(whole.rows), *whole.rows[:1].tolist(), *whole.rows[-1:].tolist()), [])
    rows = next((rows for rows in alike if np.array_equal(rows, whole.rows)), None)
    if rows is None:
        rows = whole.rows
        alike.append(rows)
    return Column(rows, whole.values, argument.texts.table if whole.texts else None)


def _fill_categories(
    core: Mapping[str, Any], names: Sequence[str], categories: list[str], threads: Sequence[tuple[int | str, int | str]]
) -> None:
    """Give a category to events of old files that have none but can be told by name or process."""
    if "" not in categories:
        return
    without = core["category"] == categories.index("")
    legacy = {category: [pid == process for pid, _ in threads] for process, category in LEGACY_PROCESSES.items()}
    told = {category: without & np.array(on, np.bool_)[core["thread"]] for category, on in legacy.items() if any(on)}
    if WITHOUT_CATEGORY in names:
        told["cpu_instant_event"] = without & (core["name"] == names.index(WITHOUT_CATEGORY))
    for category, rows in told.items():
        if category not in categories:
            categories.append(category)
        core["category"][rows] = categories.index(category)


def _hashable(value: object) -> object:
    return value if isinstance(value, int | str | None) else str(value)


def _single(value: object) -> object:
    """A time as written, or something that exact_ns knows to be none."""
    known = isinstance(value, int | str | Decimal | None) and not isinstance(value, bool)
    return value if known else str(value)
