"""`profiler-doctor report DOCUMENT`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from profiler_doctor.commands._options import Top


def report(
    document: Annotated[Path, typer.Argument(help="A diagnosis.json, or the folder of a run.")],
    format_: Annotated[str, typer.Option("--format", help="What goes to standard output: text, json, md, …")] = "text",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the files of all reports.")] = None,
    top: Top = 5,
) -> None:
    """Show a finished diagnosis again, or write its reports anew, without the program and without the trace."""
    from profiler_doctor.verbs.report import ReportOptions, report

    raise typer.Exit(report(ReportOptions(document=document, format_=format_, out=out, top=top)))


COMMAND = report
