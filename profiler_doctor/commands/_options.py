"""Options and arguments that several commands take, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Script = Annotated[str | None, typer.Argument(help="The script, as you give it to python, or a .onnx file.")]
Arguments = Annotated[list[str] | None, typer.Argument(help="Its own arguments, after --.")]
Module = Annotated[str | None, typer.Option("-m", help="Run a module instead, as python -m does.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps to record.")]
Step = Annotated[str | None, typer.Option(help="Name of a repeated range that marks the steps.")]
Budget = Annotated[float, typer.Option(min=1, help="Seconds for everything together.")]
Timeout = Annotated[float | None, typer.Option(min=1, help="End a script that gives no sign for so long.")]
Select = Annotated[list[str] | None, typer.Option("--select", help="Ask only these rules (codes, families, names).")]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Do not ask these rules.")]
FailOn = Annotated[
    str | None, typer.Option("--fail-on", help="Exit 1 when something is found: found, low, medium or high.")
]
Format = Annotated[str, typer.Option("--format", help="What goes to standard output: text, json or md.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the files (default: the run's own folder).")]
TensorBoard = Annotated[
    Path | None,
    typer.Option("--tensorboard", help="Log directory for TensorBoard's profiler plugin to put the trace in."),
]
Top = Annotated[int, typer.Option("--top", min=1, help="Findings and table rows to show.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


def program(script: str | None, arguments: list[str] | None, module: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The script and the words that it gets. With -m there is none: what stands in its place is the first word."""
    words = tuple(arguments or ())
    return (script, words) if module is None else (None, ((script,) if script else ()) + words)
