"""Events whose categories are known into columns: those of a category together, then back into the file's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler_doctor.analyzer.formats._arguments import Array
from profiler_doctor.analyzer.formats._columns import Columns, Core
from profiler_doctor.analyzer.formats._fields import add_whole
from profiler_doctor.analyzer.formats._forms import Form, Forms
from profiler_doctor.analyzer.formats._times import ABSENT, ns_of_numbers
from profiler_doctor.analyzer.trace import Ints


@dataclass(frozen=True, eq=False)
class Group:
    """The events of one category, and their places when all are laid category after category."""

    written: str
    form: Form
    places: slice
    events: Sequence[Any]


def add_known(columns: Columns, forms: Forms, events: Sequence[Any]) -> None:
    """Append events that `forms` decoded. Raises NeedsDecimals before anything is added."""
    kinds = np.fromiter(map(forms.by_type.__getitem__, map(type, events)), np.int16, len(events))
    order = np.argsort(kinds, kind="stable")
    together = list(map(events.__getitem__, order.tolist()))
    ends = np.searchsorted(kinds[order], np.arange(len(forms.known)), side="right").tolist()
    groups = [
        Group(written, form, slice(begin, end), together[begin:end])
        for (written, form), begin, end in zip(forms.known.items(), [0, *ends], ends, strict=False)
        if end > begin
    ]
    first = columns.length
    columns.append(_core(columns, groups, together, order))
    rows = (order + first).astype(np.int32)
    for group in groups:
        _add_arguments(columns, group, rows[group.places])


def _core(columns: Columns, groups: Sequence[Group], together: Sequence[Any], order: Ints) -> Core:
    count = len(together)
    start, no_start = ns_of_numbers([event.ts for event in together])
    duration, no_duration = _durations(groups, count)
    phase, category, thread = np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int32)
    for group in groups:
        phase[group.places] = _phases(columns, group)
        category[group.places] = columns.categories[group.written]
        thread[group.places] = _threads(columns, group)
    return Core(
        phase=_back(phase, order),
        category=_back(category, order),
        name=_back(np.fromiter(map(columns.names.__getitem__, [e.name for e in together]), np.int32, count), order),
        thread=_back(thread, order),
        start_ns=_back(start, order),
        dur_ns=_back(duration, order),
        no_start=order[no_start],
        no_duration=order[no_duration],
    )


def _back(values: Array, order: Ints) -> Array:
    """Values that lie category after category, in the file's order."""
    found = np.empty_like(values)
    found[order] = values
    return found


def _durations(groups: Sequence[Group], count: int) -> tuple[Ints, Ints]:
    timed = [group for group in groups if group.form.has("dur")]
    written = [event.dur for group in timed for event in group.events]
    every = [np.arange(group.places.start, group.places.stop) for group in timed]
    places = np.concatenate(every) if every else np.empty(0, np.int64)
    found = np.full(count, ABSENT)
    found[places], wrong = ns_of_numbers(written)
    return found, places[wrong]


def _phases(columns: Columns, group: Group) -> Array | int:
    fixed = group.form.fixed("ph")
    if fixed is not None:
        return columns.phases[fixed]
    return np.fromiter(map(columns.phases.__getitem__, [e.ph for e in group.events]), np.uint8, len(group.events))


def _threads(columns: Columns, group: Group) -> Array | int:
    pid, tid, of = group.form.fixed("pid"), group.form.fixed("tid"), columns.threads.of_process
    if pid is None:
        return np.fromiter([of[event.pid][event.tid] for event in group.events], np.int32, len(group.events))
    if tid is None:
        return np.fromiter(map(of[pid].__getitem__, [e.tid for e in group.events]), np.int32, len(group.events))
    return columns.threads[pid, tid]


def _add_arguments(columns: Columns, group: Group, rows: Array) -> None:
    form, events = group.form, group.events
    if form.has("id"):
        ids = [event.id for event in events]
        if form.seen["id"] <= {int, None}:
            add_whole(columns.argument("id"), rows, ids)
        else:
            columns.argument("id").add_values(rows.tolist(), [None if value == ABSENT else value for value in ids])
    if not form.has("args"):
        return
    structs = [event.args for event in events]
    if None in form.seen["args"]:
        there = np.fromiter((found is not None for found in structs), np.bool_, len(structs))
        rows, structs = rows[there], [found for found in structs if found is not None]
    form.shape.add(columns, rows, structs)
