"""`profiler-doctor analyze`: its words."""

from __future__ import annotations

from typing import Annotated

import typer

from profiler_doctor.commands._options import FailOn, Format, Ignore, Out, Quiet, Select, TensorBoard, Top

PLACE = 3


def analyze(  # noqa: PLR0913  # each parameter is an option that the user can give
    traces: Annotated[list[str], typer.Argument(help="Trace files, a folder or archive of ranks, or - for a pipe.")],
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = None,
    format_: Format = "text",
    out: Out = None,
    tensorboard: TensorBoard = None,
    top: Top = 5,
    quiet: Quiet = False,
) -> None:
    """Read what was captured elsewhere and say what is in it. Several traces are the ranks of one job."""
    from profiler_doctor.verbs.analyze import AnalyzeOptions, analyze
    from profiler_doctor.verbs.output import logged, output

    answer = logged(output(format_=format_, out=out, top=top, quiet=quiet, fail_on=fail_on), tensorboard)
    options = AnalyzeOptions(
        inputs=tuple(traces), select=tuple(select or ()), ignore=tuple(ignore or ()), output=answer
    )
    raise typer.Exit(analyze(options))


COMMAND = analyze
