"""SQLite exports of Nsight Systems (`nsys export --type sqlite`), of schema 2 and 3: a table for each kind of event."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats._blocks import Table
from profiler_doctor.analyzer.formats._bytes import GZIP
from profiler_doctor.analyzer.formats._documents import whole
from profiler_doctor.analyzer.formats._holds import missing_gpu_work, what_it_holds
from profiler_doctor.analyzer.formats._nsys_database import FAULTS, Database
from profiler_doctor.analyzer.formats._nsys_events import add_events
from profiler_doctor.analyzer.formats._xla import vendor_of
from profiler_doctor.analyzer.kinds import Format
from profiler_doctor.analyzer.model import HealthNote
from profiler_doctor.analyzer.trace import Device, Events, Trace

MAGIC = b"SQLite format 3\x00"
OWN = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_", "META_DATA_EXPORT", "OSRT_API")
EXPORT = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "EXPORT_TIME_UTC", "EXPORT_HOST", "EXPORT_PLATFORM")
"""What is kept of the export's own description; the rest are paths and options of the exporting machine."""
WALL_CLOCK = 10**17
"""Nanoseconds (March 1973): larger times are wall-clock, smaller ones are counted from the session's start."""
WARNING = 2
"""The severity from which a diagnostic message of the profiler is passed on (1 is information)."""
MOST_MESSAGES = 8


def read_nsys(path: Path) -> Trace:
    """The trace in an Nsight Systems export. Every table may be missing; times are exact nanoseconds as they stand.

    Raises UnreadableTrace where the database is damaged.
    """
    table = Table()
    try:
        with closing(_connection(path)) as connection:
            database = Database(connection)
            left_out = add_events(table, database)
            events = table.events(path)
            return Trace(
                events=events,
                source=str(path),
                format="nsys",
                producer=_producer(database),
                base_ns=_base(database, events),
                devices=tuple(_devices(database)),
                metadata={key: value for key, value in database.pairs("META_DATA_EXPORT").items() if key in EXPORT},
                health=(*_notes(database, left_out), *table.notes(), *missing_gpu_work(events)),
                has=what_it_holds(events),
            )
    except FAULTS as error:
        raise UnreadableTrace(f"{path} is an SQLite database that cannot be read: {error}.") from error


def _connection(path: Path) -> sqlite3.Connection:
    """The database, opened so that nothing is written beside it."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    if packed:
        connection = sqlite3.connect(":memory:")
        connection.deserialize(whole(path)[0])
    else:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _producer(database: Database) -> str:
    export = database.pairs("META_DATA_EXPORT")
    version, schema = export.get("EXPORT_PRODUCT_VERSION", ""), export.get("EXPORT_SCHEMA_VERSION", "")
    return " ".join(filter(None, ("Nsight Systems", version, f"(schema {schema})" if schema else "")))


def _base(database: Database, events: Events) -> int:
    """The wall-clock time of 0, where the export has it and its times are counted from there."""
    begins = [row[0] for row in database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))]
    relative = int(events.start_ns.max(initial=0)) < WALL_CLOCK
    return next((begin for begin in begins if isinstance(begin, int) and relative), 0)


def _devices(database: Database) -> Iterator[Device]:
    wanted = ("id", "name", "computeMajor", "computeMinor", "smCount", "totalMemory")
    for gpu, name, major, minor, processors, memory in database.rows("TARGET_INFO_GPU", wanted):
        for device in database.devices_of(gpu):
            yield Device(
                id=device,
                name=str(name or ""),
                compute_capability=(major, minor) if isinstance(major, int) and isinstance(minor, int) else None,
                multiprocessors=processors if isinstance(processors, int) else None,
                memory_bytes=memory if isinstance(memory, int) else None,
                vendor=vendor_of(str(name or "")) or "nvidia",
            )


def _notes(database: Database, left_out: Mapping[str, int]) -> Iterator[HealthNote]:
    if database.damaged:
        tables = ", ".join(sorted(database.damaged))
        said = f"The database is damaged: of {tables} only a part could be read, or nothing."
        yield HealthNote(code="TRUNCATED", message=said, events=len(database.damaged))
    told = database.rows("DIAGNOSTIC_EVENT", ("severity", "text"))
    texts = dict.fromkeys(str(text) for severity, text in told if isinstance(severity, int) and severity >= WARNING)
    for text in list(texts)[:MOST_MESSAGES]:
        yield HealthNote(code="PROFILER-SAYS", message=f"Nsight Systems says: {text}", events=0)
    if left_out.get("open"):
        said = f"{left_out['open']} NVTX ranges were never closed; they are kept as marks, without a duration."
        yield HealthNote(code="RANGE-OPEN", message=said, events=left_out["open"])
    if graphs := left_out.get("graphs"):
        said = (
            f"{graphs} CUDA graph launches were recorded as a whole (--cuda-graph-trace=graph): each counts as one "
            "kernel, what ran inside is not known."
        )
        yield HealthNote(code="GRAPHS-WHOLE", message=said, events=graphs)
    others = database.not_read()
    if others:
        said = ", ".join(f"{number} in {name}" for name, number in others.items())
        message = f"{sum(others.values())} rows are of kinds that are not read here: {said}."
        yield HealthNote(code="TABLES-NOT-READ", message=message, events=sum(others.values()))


def _knows(head: bytes, path: Path) -> bool:
    if not head.startswith(MAGIC):
        return False
    try:
        with closing(_connection(path)) as connection:
            tables = Database(connection).tables
    except (*FAULTS, OSError, UnreadableTrace):
        return False
    return "StringIds" in tables and any(name.startswith(OWN) for name in tables)


FORMAT = Format(name="nsys", knows=_knows, read=read_nsys)
