"""`profiler-doctor run`: its words."""

from __future__ import annotations

from typing import Annotated

import typer

from profiler_doctor.commands._options import (
    Arguments,
    Budget,
    FailOn,
    Format,
    Ignore,
    Module,
    Out,
    Quiet,
    Script,
    Select,
    Step,
    Steps,
    TensorBoard,
    Timeout,
    Top,
    program,
)

PLACE = 1


def run(  # noqa: PLR0913  # each parameter is an option that the user can give
    script: Script = None,
    arguments: Arguments = None,
    module: Module = None,
    steps: Steps = 5,
    step: Step = None,
    budget: Budget = 120.0,
    timeout: Timeout = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Diagnose only: run no trial.")] = False,
    attempts: Annotated[list[str] | None, typer.Option("--try", help="Try this fix whatever was found.")] = None,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = None,
    format_: Format = "text",
    out: Out = None,
    tensorboard: TensorBoard = None,
    top: Top = 5,
    quiet: Quiet = False,
) -> None:
    """Run a script, say why it is slow, and try the cures on it.

    The script runs in processes of its own, as it would without us. Trials run it again, so what it does to files,
    databases or the network happens again too: --no-verify only diagnoses.
    """
    from profiler_doctor.verbs.output import logged, output
    from profiler_doctor.verbs.run import RunOptions, run

    script, words = program(script, arguments, module)
    options = RunOptions(
        script=script,
        module=module,
        arguments=words,
        steps=steps,
        step_name=step,
        budget_s=budget,
        timeout_s=timeout,
        verify=not no_verify,
        attempts=tuple(attempts or ()),
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        output=logged(output(format_=format_, out=out, top=top, quiet=quiet, fail_on=fail_on), tensorboard),
    )
    raise typer.Exit(run(options))


COMMAND = run
