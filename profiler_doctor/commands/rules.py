"""`profiler-doctor rules`: its words."""

from __future__ import annotations

import typer

from profiler_doctor.commands._options import Format

PLACE = 8


def rules(format_: Format = "text") -> None:
    """List the rules: what each looks for and what it needs."""
    from profiler_doctor.verbs.rules import rules

    raise typer.Exit(rules(format_))


COMMAND = rules
