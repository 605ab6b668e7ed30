"""`profiler-doctor check`: its words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from profiler_doctor.commands._options import Arguments, Budget, Quiet, Step, Timeout, program

PLACE = 6


def check(  # noqa: PLR0913  # each parameter is an option that the user can give
    script: Annotated[str | None, typer.Argument(help="The script; none: the workloads of pyproject.toml.")] = None,
    arguments: Arguments = None,
    module: Annotated[str | None, typer.Option("-m", help="Check a module instead, as python -m runs it.")] = None,
    workload: Annotated[list[str] | None, typer.Option("--workload", help="Which workload; the script's name.")] = None,
    base: Annotated[str | None, typer.Option("--base", help="Compare with this revision, in the same job.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="The file to compare with.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the baseline anew; compare nothing.")] = False,
    step: Step = None,
    windows: Annotated[int | None, typer.Option(min=2, help="Windows to count (5).")] = None,
    window_steps: Annotated[int | None, typer.Option(min=1, help="Steps in a window (1).")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Share by which a step may take longer (5%).")] = None,
    no_time: Annotated[bool, typer.Option("--no-time", help="Compare counters only.")] = False,
    budget: Budget = 300.0,
    timeout: Timeout = None,
    strict: Annotated[bool, typer.Option("--strict", help="What cannot be decided fails: exit 1, not 3.")] = False,
    format_: Annotated[
        str, typer.Option("--format", help="text, json, md, sarif, junit or github: to standard output.")
    ] = "text",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the files of all formats.")] = None,
    history: Annotated[Path | None, typer.Option("--history", help="SQLite file to add the results to.")] = None,
    quiet: Quiet = False,
) -> None:
    """Say whether performance got worse: by counters, exactly, and by time where a test can tell.

    Compares with the committed .profiler-doctor/baseline.json, or with a revision (--base). Exit code 0: no; 1: worse,
    or a budget is broken; 2: it could not be run; 3: it cannot be told.
    """
    from profiler_doctor.verbs.check import CheckOptions, check
    from profiler_doctor.verbs.check_output import check_output

    script, words = program(script, arguments, module)
    options = CheckOptions(
        script=script,
        module=module,
        arguments=words,
        names=tuple(workload or ()),
        base=base,
        baseline=baseline,
        update=update,
        step=step,
        windows=windows,
        window_steps=window_steps,
        time=time,
        no_time=no_time,
        budget_s=budget,
        timeout_s=timeout,
        strict=strict,
        history=history,
        output=check_output(format_, out, quiet),
    )
    raise typer.Exit(check(options))


COMMAND = check
