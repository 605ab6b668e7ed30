"""`profiler-doctor mcp`: its words."""

from __future__ import annotations

import typer


def mcp() -> None:
    """Offer run, verify, analyze, table and explain to an agent or editor: the Model Context Protocol over stdio."""
    from profiler_doctor.verbs.mcp import serve

    raise typer.Exit(serve())


COMMAND = mcp
