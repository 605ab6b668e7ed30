"""`profiler-doctor table NAME TRACE…`: all rows of one table, for people or for machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill

import pandas as pd

from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Table
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.sources import Job, traces
from profiler_doctor.analyzer.trace import Trace, empty_trace
from profiler_doctor.verbs.destination import put
from profiler_doctor.verbs.table_formats import FORMATS

MEASURES = "profiler_doctor.analyzer.measures"
POINTS_AT = ("op", "launch", "parent", "waited_for", "ended_by")
"""Columns that hold rows of events: what those are called is told beside them."""


class UnknownTable(UserError):
    """There is no table of that name, or no format."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What `table` was asked for. No name: which tables there are. No trace: what the table's columns are."""

    name: str | None
    inputs: tuple[str, ...]
    """Files, folders, archives, addresses, or `-`; of several traces each row says its rank."""
    format_: str | None
    out: Path | None
    top: int | None


def table(options: TableOptions) -> ExitCode:
    """Find the table, read the trace, write the rows."""
    tables = every_table()
    encode = _format(options)
    if options.name is None:
        sys.stdout.write(_listed(tables.values()))
    elif not options.inputs:
        sys.stdout.write(_explained(_named(tables, options.name)))
    else:
        chosen = _named(tables, options.name)
        job = traces(options.inputs)
        rows = [_rows(chosen, trace, options.top) for trace in job.traces]
        put(encode(rows[0] if len(rows) == 1 else _by_rank(job, rows)), options.out)
    return ExitCode.FINE


def _rows(table: Table, trace: Trace, top: int | None) -> pd.DataFrame:
    rows = table.of(trace)
    return with_names(trace, rows.head(top) if top else rows)


def _by_rank(job: Job, rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    ranks = [-1 if trace.rank is None else trace.rank for trace in job.traces]
    told = [part.assign(rank=rank)[["rank", *part.columns]] for rank, part in zip(ranks, rows, strict=True)]
    return pd.concat(told, ignore_index=True)


def every_table() -> dict[str, Table]:
    """All tables that are installed, by name; measures that do not load are named on standard error."""
    found = find(MEASURES, Table)
    for broken in found.broken:
        sys.stderr.write(f"{broken.module} does not load, its tables are missing ({broken.error}).\n")
    return {table.name: table for table in sorted(found.items, key=lambda table: table.name)}


def with_names(trace: Trace, rows: pd.DataFrame) -> pd.DataFrame:
    """The same, and beside every column that holds rows of events (op, launch, …) what those are called."""
    told = rows
    for column in POINTS_AT:
        if column in rows.columns and rows[column].dtype.kind == "i" and f"{column}_name" not in rows.columns:
            names = [trace.events.name_of(row) if row >= 0 else "" for row in rows[column].tolist()]
            told = told.assign(**{f"{column}_name": names})
    return told


def _named(tables: dict[str, Table], name: str) -> Table:
    if name in tables:
        return tables[name]
    near = get_close_matches(name, tables, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownTable(f"There is no table {name!r}.{hint} `profiler-doctor table` lists them.")


def _format(options: TableOptions) -> Callable[[pd.DataFrame], bytes]:
    """The format asked for, else the one that the file's name ends in, else text."""
    by_name = options.out.suffix.removeprefix(".") if options.out else ""
    wanted = options.format_ or (by_name if by_name in FORMATS else "text")
    if wanted not in FORMATS:
        raise UnknownTable(f"--format {wanted}: there is no such format. Choose from {', '.join(FORMATS)}.")
    if wanted == "parquet" and options.out is None and sys.stdout.isatty():
        raise UnknownTable("Parquet is no text for a terminal: name a file with --out.")
    return FORMATS[wanted]


def _listed(tables: Iterable[Table]) -> str:
    """Every table with what a row is and its columns."""
    nothing = empty_trace("")
    parts = [
        f"{table.name}\n{fill(table.title, 96, initial_indent='  ', subsequent_indent='  ')}\n"
        f"{fill(', '.join(table.of(nothing).columns), 96, initial_indent='    ', subsequent_indent='    ')}\n"
        for table in tables
    ]
    return "".join(parts) + "\n`profiler-doctor table NAME` explains the columns, `… NAME TRACE` prints the rows.\n"


def _explained(table: Table) -> str:
    return f"{table.name}\n\n{table.doc}\n"
