"""The columns of a trace while they grow: events go in as they are read, frozen columns come out at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profiler_doctor.analyzer.formats._arguments import Argument, Texts
from profiler_doctor.analyzer.formats._terms import ARGUMENTS, category_of
from profiler_doctor.analyzer.formats._times import exact_ns
from profiler_doctor.analyzer.trace import NO_DURATION, Events

ThreadKey = tuple[int | str, int | str]


@dataclass
class Columns:
    """Core columns as lists of pieces, arguments by name, and counts of what could not be taken as written."""

    phase: list[Any] = field(default_factory=list)
    category: list[Any] = field(default_factory=list)
    name: list[Any] = field(default_factory=list)
    thread: list[Any] = field(default_factory=list)
    start_ns: list[Any] = field(default_factory=list)
    dur_ns: list[Any] = field(default_factory=list)
    categories: Texts = field(default_factory=Texts)
    names: Texts = field(default_factory=Texts)
    threads: dict[ThreadKey, int] = field(default_factory=dict)
    arguments: dict[str, Argument] = field(default_factory=dict)
    trouble: Counter[str] = field(default_factory=Counter)
    written_categories: set[str] = field(default_factory=set)
    written_arguments: set[str] = field(default_factory=set)
    length: int = 0

    def argument(self, written: str) -> Argument:
        """The growing column of an argument, under today's name."""
        self.written_arguments.add(written)
        name = ARGUMENTS.get(written, written)
        if name not in self.arguments:
            self.arguments[name] = Argument(name)
        return self.arguments[name]

    def thread_code(self, pid: object, tid: object) -> int:
        """The code of a (pid, tid); what is neither int nor text is written as text, absent ones as ""."""
        key = (_thread_part(pid), _thread_part(tid))
        return self.threads.setdefault(key, len(self.threads))

    def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Events as a JSON reader gives them: the careful way, for what the fast way does not take."""
        rows = range(self.length, self.length + len(events))
        self.length += len(events)
        self.phase.append(np.array([_phase(event) for event in events], np.uint8))
        self.category.append(np.array([self._category_code(event) for event in events], np.int32))
        self.name.append(np.array([self.names[_name(event)] for event in events], np.int32))
        threads = [self.thread_code(event.get("pid"), event.get("tid")) for event in events]
        self.thread.append(np.array(threads, np.int32))
        self._add_times(events)
        self._add_arguments(rows, events)

    def _category_code(self, event: Mapping[str, Any]) -> int:
        written = event.get("cat")
        if isinstance(written, str):
            self.written_categories.add(written)
        return self.categories[category_of(written, event.get("pid"), _name(event))]

    def _add_times(self, events: Iterable[Mapping[str, Any]]) -> None:
        starts, durations = [], []
        for event in events:
            start, duration = exact_ns(event.get("ts")), exact_ns(event.get("dur"))
            if start is None and "ts" in event:
                self.trouble["time"] += 1
            if duration is None and event.get("dur") is not None:
                self.trouble["duration"] += 1
            if duration is not None and duration < 0:
                self.trouble["negative"] += 1
                duration = 0
            starts.append(start or 0)
            durations.append(NO_DURATION if duration is None else duration)
        self.start_ns.append(np.array(starts, np.int64))
        self.dur_ns.append(np.array(durations, np.int64))

    def _add_arguments(self, rows: Sequence[int], events: Sequence[Mapping[str, Any]]) -> None:
        found: dict[str, tuple[list[int], list[Any]]] = {}
        for row, event in zip(rows, events, strict=True):
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
        """The finished columns."""
        columns = {}
        for name, argument in self.arguments.items():
            columns[name], lost = argument.column()
            self.trouble["argument"] += lost
        return Events(
            phase=_whole(self.phase, np.uint8),
            category=_whole(self.category, np.int32),
            name=_whole(self.name, np.int32),
            thread=_whole(self.thread, np.int32),
            start_ns=_whole(self.start_ns, np.int64),
            dur_ns=_whole(self.dur_ns, np.int64),
            categories=tuple(self.categories),
            names=tuple(self.names),
            threads=tuple(self.threads),
            arguments=columns,
        )


def _whole(pieces: Sequence[Any], kind: Any) -> Any:
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def _phase(event: Mapping[str, Any]) -> int:
    phase = event.get("ph")
    return ord(phase) if isinstance(phase, str) and len(phase) == 1 and ord(phase) < 256 else 0


def _name(event: Mapping[str, Any]) -> str:
    name = event.get("name")
    return name if isinstance(name, str) else ""


def _thread_part(value: object) -> int | str:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    return "" if value is None else str(value)
