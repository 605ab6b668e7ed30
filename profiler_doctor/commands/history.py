"""`profiler-doctor history`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PLACE = 7


def history(
    file: Annotated[Path, typer.Argument(help="The SQLite file that `check --history` adds to.")],
    out: Annotated[Path | None, typer.Option("--out", help="Page of charts to write instead of text.")] = None,
) -> None:
    """Show the results of checks over time, and how much step times scatter where nothing changed."""
    from profiler_doctor.verbs.history import history

    raise typer.Exit(history(file, out))


COMMAND = history
