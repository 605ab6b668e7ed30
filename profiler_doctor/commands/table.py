"""`profiler-doctor table`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PLACE = 4


def table(
    name: Annotated[str | None, typer.Argument(help="Which table; without a name they are listed.")] = None,
    traces: Annotated[list[str] | None, typer.Argument(help="As for analyze; none: what the columns mean.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="text, csv, json or parquet.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write instead of standard output.")] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Rows to print (default: all).")] = None,
) -> None:
    """Print one table of a trace with all its rows: kernels, ops, modules, copies, idle time, memory, …"""
    from profiler_doctor.verbs.table import TableOptions, table

    options = TableOptions(name=name, inputs=tuple(traces or ()), format_=format_, out=out, top=top)
    raise typer.Exit(table(options))


COMMAND = table
