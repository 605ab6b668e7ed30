"""The events of the lines of an xplane as blocks of a trace: what ran on a stream, what a thread did, and with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from profiler_doctor.analyzer.formats._blocks import Block, Table, Words
from profiler_doctor.analyzer.formats._planes import (
    DOUBLE,
    REFERENCE,
    SIGNED,
    STAT_KEY,
    TEXT,
    UNSIGNED,
    Line,
    Plane,
)
from profiler_doctor.analyzer.formats._protobuf import FIXED64, Entries, Raw, doubles, march, text
from profiler_doctor.analyzer.formats._times import NEVER
from profiler_doctor.analyzer.formats._values import Values
from profiler_doctor.analyzer.formats._xla import (
    ARGUMENTS,
    DERIVED,
    DETAILS,
    DEVICE,
    OPS_LINE,
    STEP,
    STREAM,
    details_of,
    host_category,
    work_category,
    work_name,
)
from profiler_doctor.analyzer.trace import Column, interned

NAME_KEY, OFFSET, DURATION, STAT = 1, 2, 3, 4
"""Fields of an event."""


def add_plane(table: Table, data: Raw, plane: Plane) -> None:
    """Append all events of a plane; `table.trouble["fraction"]` counts those whose times were rounded down."""
    device = DEVICE.match(plane.name)
    streams = any(STREAM.match(line.name) for line in plane.lines)
    threads = plane.thread_names()
    for line in plane.lines:
        block = _block(table, data, plane, line)
        stream = STREAM.match(line.name)
        if device and (stream or (not streams and line.name == OPS_LINE)):
            place = (int(device["id"]), int(stream["id"]) if stream else line.id)
            _add_work(table, block, place)
        elif device:
            table.add(replace(block, category=DERIVED, threads=((plane.name, threads[line.id]),)))
        else:
            process = plane.stats.get("process_id")
            thread = (process if isinstance(process, int) else plane.name, threads[line.id])
            _add_host(table, replace(block, threads=(thread,)))


def _block(table: Table, data: Raw, plane: Plane, line: Line) -> Block:
    count = len(line.starts)
    fields = march(data, line.starts, line.ends, table.trouble)
    offset, duration = (fields.of(which).last_value(count).clip(-NEVER, NEVER) for which in (OFFSET, DURATION))
    table.trouble["fraction"] += int(np.count_nonzero((offset % 1000 != 0) | (duration % 1000 != 0)))
    base = line.time_ns if line.time_ns < NEVER else NEVER
    keys, codes = np.unique(fields.of(NAME_KEY).last_value(count), return_inverse=True)
    return Block(
        category="",
        names=(codes.astype(np.int32), tuple(plane.event_names.get(key, "") for key in keys.tolist())),
        threads=(("", ""),),
        thread=np.zeros(count, np.int32),
        start_ns=base + offset // 1000,
        end_ns=base + (offset + duration) // 1000,
        arguments=_arguments(data, plane, fields.of(STAT), table.trouble),
    )


def _arguments(data: Raw, plane: Plane, stats: Entries, trouble: Counter[str]) -> dict[str, Column]:
    """Every stat of the events as a column; names that start with an underscore are XLA's own bookkeeping."""
    fields = march(data, stats.start, stats.end, trouble)
    key_of = fields.of(STAT_KEY).last_value(len(stats.owner))
    found: dict[str, Column] = {}
    for key in np.unique(key_of).tolist():
        name = plane.stat_names.get(key, "_")
        if not name.startswith("_"):
            chosen = fields.where(key_of[fields.owner] == key)
            values = Values()
            _add_values(values, data, plane, replace(chosen, owner=stats.owner[chosen.owner]))
            found[ARGUMENTS.get(name, name)] = values.column()
    return found


def _add_values(values: Values, data: Raw, plane: Plane, fields: Entries) -> None:
    whole = fields.where((fields.number == UNSIGNED) | (fields.number == SIGNED))
    signed = whole.value.view(np.int64)
    if np.any((whole.number == UNSIGNED) & (signed < 0)):  # more than 63 bits: a hash or an id, so its digits do
        values.add_texts(whole.owner, [str(value) for value in whole.value.tolist()])
    elif len(whole.owner):
        values.add(whole.owner, signed)
    real = fields.where((fields.number == DOUBLE) & (fields.wire == FIXED64))
    if len(real.owner):
        values.add(real.owner, doubles(data, real.start))
    written, named = fields.of(TEXT), fields.of(REFERENCE)
    spans = zip(written.start.tolist(), written.end.tolist(), strict=True)
    values.add_texts(written.owner, [text(data, *span) for span in spans])
    values.add_texts(named.owner, [plane.stat_names.get(key, "") for key in named.value.tolist()])


def _add_work(table: Table, block: Block, place: tuple[int, int]) -> None:
    """What ran on a stream: names and details in kineto's terms, device and stream as arguments."""
    rows = np.arange(len(block.start_ns))
    where = {
        name: Column(rows, np.full(len(rows), number), None)
        for name, number in zip(("device", "stream"), place, strict=True)
    }
    arguments = {**block.arguments, **where, **_details(block.arguments)}
    block = replace(block, threads=(place,), names=_work_names(block), arguments=arguments)
    _add_by_category(table, block, [work_category(name) for name in block.names[1]])


def _details(arguments: Mapping[str, Column]) -> dict[str, Column]:
    found: dict[str, Values] = {}
    for column in (arguments[name] for name in DETAILS if name in arguments):
        for code, detail in enumerate(column.table or ()):
            rows = column.rows[column.values == code]
            for name, value in details_of(detail).items():
                found.setdefault(name, Values()).add_mixed(rows.tolist(), [value] * len(rows))
    return {name: values.column() for name, values in found.items()}


def _work_names(block: Block) -> Words:
    """Copies named as kineto names them, from their own name and their details."""
    codes, table = block.names
    details = block.arguments.get("memcpy_details")
    if details is None or details.table is None:
        return codes, tuple(work_name(name, "") for name in table)
    detail = details.at(np.arange(len(codes)), -1)
    pairs, which = np.unique(np.column_stack((codes, detail)), axis=0, return_inverse=True)
    texts = (*details.table, "")
    names, renamed = interned([work_name(table[code], texts[text]) for code, text in pairs.tolist()])
    return names[which.reshape(-1)], renamed


def _add_host(table: Table, block: Block) -> None:
    """What a thread did: a StepTraceAnnotation is a step, everything else is told by its name."""
    codes, names = block.names
    steps = block.arguments.get(STEP)
    categories = [host_category(name) for name in names]
    if steps is not None and steps.table is None and len(steps.rows):
        numbers, which = np.unique(steps.values.astype(np.int64), return_inverse=True)
        written = Column(steps.rows, codes[steps.rows], names)
        codes = codes.copy()
        codes[steps.rows] = len(names) + which
        names = (*names, *(f"ProfilerStep#{number}" for number in numbers.tolist()))
        categories += ["user_annotation"] * len(numbers)
        block = replace(block, names=(codes, names), arguments={**block.arguments, "Written name": written})
    _add_by_category(table, block, categories)


def _add_by_category(table: Table, block: Block, category_of_name: list[str]) -> None:
    for category in sorted(set(category_of_name)):
        here = np.array([name == category for name in category_of_name], np.bool_)
        table.add(replace(block, category=category).where(here[block.names[0]]))
