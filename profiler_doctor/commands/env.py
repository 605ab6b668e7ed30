"""`profiler-doctor env`: its words."""

from __future__ import annotations

from typing import Annotated

import typer


def env(
    format_: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """Check this machine: what can be recorded and timed here, and what would get into the way."""
    from profiler_doctor.verbs.env import env

    raise typer.Exit(env(format_))


COMMAND = env
