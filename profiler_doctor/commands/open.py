"""`profiler-doctor open`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def open_(
    what: Annotated[Path | None, typer.Argument(help="A run's folder or a trace (default: the latest run).")] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Code of the finding to begin at (default: the first).")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Look at a trace, with the findings in it, in ui.perfetto.dev.

    The file is served on this machine's loopback address only, to your own browser, until it has been fetched; it is
    sent nowhere.
    """
    from profiler_doctor.verbs.open import OpenOptions, open_trace

    raise typer.Exit(open_trace(OpenOptions(what=what, at=at, browser=not no_browser)))


COMMAND = open_
