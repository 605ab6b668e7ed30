"""`profiler-doctor compare`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PLACE = 5


def compare(
    before: Annotated[str, typer.Argument(help="A trace, a diagnosis.json, or a run's folder.")],
    after: Annotated[str, typer.Argument(help="Another one of the same program on the same kind of device.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="text, json, md or html (default: html for a FILE.html, else text).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write instead of standard output.")] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Rows of each table, the largest change first (default: 10).")
    ] = None,
) -> None:
    """Line two recordings up by op, module and kernel: what changed, and by how much.

    Two documents of runs also hold counters, which are judged as `check` does. Exit code 1: one got worse; 3: the two
    cannot be compared.
    """
    from profiler_doctor.verbs.compare import CompareOptions, compare

    raise typer.Exit(compare(CompareOptions(before=before, after=after, format_=format_, out=out, top=top)))


COMMAND = compare
