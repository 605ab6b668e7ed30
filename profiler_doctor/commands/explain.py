"""`profiler-doctor explain`: its words."""

from __future__ import annotations

from typing import Annotated

import typer

PLACE = 9


def explain(
    code: Annotated[str, typer.Argument(help="A rule's code or name, or a fix's name; `fixes` lists those.")],
) -> None:
    """Print what a rule or a fix is about: what it finds, why it costs, what to do, when not to."""
    from profiler_doctor.verbs.explain import explain

    raise typer.Exit(explain(code))


COMMAND = explain
