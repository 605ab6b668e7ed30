"""`profiler-doctor verify`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from profiler_doctor.commands._options import (
    Arguments,
    Budget,
    Format,
    Module,
    Out,
    Quiet,
    Script,
    Step,
    Steps,
    Timeout,
    Top,
    program,
)

PLACE = 2


def verify(  # noqa: PLR0913  # each parameter is an option that the user can give
    script: Script = None,
    arguments: Arguments = None,
    fix: Annotated[list[str] | None, typer.Option("--fix", help="Fixes to try: NAME or NAME,NAME.")] = None,
    fix_file: Annotated[list[Path] | None, typer.Option("--fix-file", help="Python file with a fix of yours.")] = None,
    module: Module = None,
    steps: Steps = 5,
    step: Step = None,
    budget: Budget = 120.0,
    timeout: Timeout = None,
    format_: Format = "text",
    out: Out = None,
    top: Top = 5,
    quiet: Quiet = False,
) -> None:
    """Try fixes of your choice on a script, whatever is wrong with it, and say which of them are true.

    Exits with 0 when all are verified, 1 when one is rejected, 3 when it cannot be told, 2 when the script fails.
    """
    from profiler_doctor.verbs.output import output
    from profiler_doctor.verbs.run import RunOptions
    from profiler_doctor.verbs.verify import VerifyOptions, verify

    script, words = program(script, arguments, module)
    running = RunOptions(
        script=script,
        module=module,
        arguments=words,
        steps=steps,
        step_name=step,
        budget_s=budget,
        timeout_s=timeout,
        output=output(format_=format_, out=out, top=top, quiet=quiet, fail_on=None),
    )
    raise typer.Exit(verify(VerifyOptions(running, tuple(fix or ()), tuple(fix_file or ()))))


COMMAND = verify
