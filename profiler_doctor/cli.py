"""The command line: reads the words, hands them to a verb, prints a fault as a sentence, and picks the exit code."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler_doctor.commands import commands

if TYPE_CHECKING:
    from profiler_doctor.verbs.output import Output

app = typer.Typer(
    name="profiler-doctor",
    help="Find out why a PyTorch model is slow, try the cures, and say which of them are true.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FULL = (errno.ENOSPC, errno.EDQUOT)
"""A disk or quota that is full: a fault that the user can act on, wherever it is met."""

Format = Annotated[str, typer.Option("--format", help="What goes to standard output: text, json or md.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the files (default: the run's own folder).")]
TensorBoard = Annotated[
    Path | None,
    typer.Option("--tensorboard", help="Log directory for TensorBoard's profiler plugin to put the trace in."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Top = Annotated[int, typer.Option("--top", min=1, help="Findings and table rows to show.")]
Select = Annotated[list[str] | None, typer.Option("--select", help="Ask only these rules (codes, families, names).")]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Do not ask these rules.")]
FailOn = Annotated[
    str | None, typer.Option("--fail-on", help="Exit 1 when something is found: found, low, medium or high.")
]


def _version(wanted: bool) -> None:
    if wanted:
        from profiler_doctor.verbs.versions import versions

        typer.echo(versions())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Options that belong to no verb."""


@app.command()
def run(  # noqa: PLR0913  # each parameter is an option that the user can give
    script: Annotated[str | None, typer.Argument(help="The script, as you give it to python, or a .onnx file.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments, after --.")] = None,
    module: Annotated[str | None, typer.Option("-m", help="Run a module instead, as python -m does.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to record.")] = 5,
    step: Annotated[str | None, typer.Option(help="Name of a repeated range that marks the steps.")] = None,
    budget: Annotated[float, typer.Option(min=1, help="Seconds for everything together.")] = 120.0,
    timeout: Annotated[float | None, typer.Option(min=1, help="End a script that gives no sign for so long.")] = None,
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
    from profiler_doctor.verbs.run import RunOptions, run

    words = tuple(arguments or ())
    target = (script, words) if module is None else (None, ((script,) if script else ()) + words)
    options = RunOptions(
        script=target[0],
        module=module,
        arguments=tuple(word for word in target[1]),
        steps=steps,
        step_name=step,
        budget_s=budget,
        timeout_s=timeout,
        verify=not no_verify,
        attempts=tuple(attempts or ()),
        select=tuple(select or ()),
        ignore=tuple(ignore or ()),
        output=_logged(_output(format_, out, top, quiet, fail_on), tensorboard),
    )
    raise typer.Exit(run(options))


@app.command()
def verify(  # noqa: PLR0913  # as above
    script: Annotated[str | None, typer.Argument(help="The script, as you give it to python, or a .onnx file.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments, after --.")] = None,
    fix: Annotated[list[str] | None, typer.Option("--fix", help="Fixes to try: NAME or NAME,NAME.")] = None,
    fix_file: Annotated[list[Path] | None, typer.Option("--fix-file", help="Python file with a fix of yours.")] = None,
    module: Annotated[str | None, typer.Option("-m", help="Run a module instead, as python -m does.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to record.")] = 5,
    step: Annotated[str | None, typer.Option(help="Name of a repeated range that marks the steps.")] = None,
    budget: Annotated[float, typer.Option(min=1, help="Seconds for everything together.")] = 120.0,
    timeout: Annotated[float | None, typer.Option(min=1, help="End a script that gives no sign for so long.")] = None,
    format_: Format = "text",
    out: Out = None,
    top: Top = 5,
    quiet: Quiet = False,
) -> None:
    """Try fixes of your choice on a script, whatever is wrong with it, and say which of them are true.

    Exits with 0 when all are verified, 1 when one is rejected, 3 when it cannot be told, 2 when the script fails.
    """
    from profiler_doctor.verbs.run import RunOptions
    from profiler_doctor.verbs.verify import VerifyOptions, verify

    words = tuple(arguments or ())
    running = RunOptions(
        script=script if module is None else None,
        module=module,
        arguments=words if module is None else ((script,) if script else ()) + words,
        steps=steps,
        step_name=step,
        budget_s=budget,
        timeout_s=timeout,
        output=_output(format_, out, top, quiet, None),
    )
    raise typer.Exit(verify(VerifyOptions(running, tuple(fix or ()), tuple(fix_file or ()))))


@app.command()
def analyze(  # noqa: PLR0913  # as above
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

    output = _logged(_output(format_, out, top, quiet, fail_on), tensorboard)
    options = AnalyzeOptions(
        inputs=tuple(traces), select=tuple(select or ()), ignore=tuple(ignore or ()), output=output
    )
    raise typer.Exit(analyze(options))


@app.command()
def table(
    name: Annotated[str | None, typer.Argument(help="Which table; without a name they are listed.")] = None,
    traces: Annotated[list[str] | None, typer.Argument(help="As for analyze; none: what the columns mean.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="text, csv, json or parquet.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write instead of standard output.")] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Rows to print (default: all).")] = None,
) -> None:
    """Print one table of a trace with all its rows: kernels, ops, modules, copies, idle time, memory, …"""
    from profiler_doctor.verbs.table import TableOptions, table

    options = TableOptions(name=name, inputs=tuple(traces or ()), format_=format_, out=out, top=top)
    raise typer.Exit(table(options))


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help="A trace, a diagnosis.json, or a run's folder.")],
    after: Annotated[str, typer.Argument(help="Another one of the same program on the same kind of device.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="text, json, md or html (default: html for a FILE.html, else text).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write instead of standard output.")] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Rows of each table, the largest change first (default: 10).")
    ] = None,
) -> None:
    """Line two recordings up by op, module and kernel: what changed, and by how much."""
    from profiler_doctor.verbs.compare import CompareOptions, compare

    raise typer.Exit(compare(CompareOptions(before=before, after=after, format_=format_, out=out, top=top)))


@app.command()
def check(  # noqa: PLR0913  # as above
    script: Annotated[str | None, typer.Argument(help="The script; none: the workloads of pyproject.toml.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own arguments, after --.")] = None,
    module: Annotated[str | None, typer.Option("-m", help="Check a module instead, as python -m runs it.")] = None,
    workload: Annotated[list[str] | None, typer.Option("--workload", help="Which workload; the script's name.")] = None,
    base: Annotated[str | None, typer.Option("--base", help="Compare with this revision, in the same job.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="The file to compare with.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the baseline anew; compare nothing.")] = False,
    step: Annotated[str | None, typer.Option(help="Name of a repeated range that marks the steps.")] = None,
    windows: Annotated[int | None, typer.Option(min=2, help="Windows to count (5).")] = None,
    window_steps: Annotated[int | None, typer.Option(min=1, help="Steps in a window (1).")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Share by which a step may take longer (5%).")] = None,
    no_time: Annotated[bool, typer.Option("--no-time", help="Compare counters only.")] = False,
    budget: Annotated[float, typer.Option(min=1, help="Seconds for everything together.")] = 300.0,
    timeout: Annotated[float | None, typer.Option(min=1, help="End a script that gives no sign for so long.")] = None,
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

    words = tuple(arguments or ())
    options = CheckOptions(
        script=script if module is None else None,
        module=module,
        arguments=words if module is None else ((script,) if script else ()) + words,
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


@app.command()
def history(
    file: Annotated[Path, typer.Argument(help="The SQLite file that `check --history` adds to.")],
    out: Annotated[Path | None, typer.Option("--out", help="Page of charts to write instead of text.")] = None,
) -> None:
    """Show the results of checks over time, and how much step times scatter where nothing changed."""
    from profiler_doctor.verbs.history import history

    raise typer.Exit(history(file, out))


@app.command()
def rules(format_: Format = "text") -> None:
    """List the rules: what each looks for and what it needs."""
    from profiler_doctor.verbs.rules import rules

    raise typer.Exit(rules(format_))


@app.command()
def explain(code: Annotated[str, typer.Argument(help="A rule's code or name, or a fix's name.")]) -> None:
    """Print what a rule or a fix is about: what it finds, why it costs, what to do, when not to."""
    from profiler_doctor.verbs.explain import explain

    raise typer.Exit(explain(code))


for _name, _command in commands():
    app.command(_name)(_command)


def _output(format_: str, out: Path | None, top: int, quiet: bool, fail_on: str | None) -> Output:
    from profiler_doctor.verbs.output import output

    return output(format_=format_, out=out, top=top, quiet=quiet, fail_on=fail_on)


def _logged(output: Output, folder: Path | None) -> Output:
    from profiler_doctor.verbs.output import check_folder

    check_folder(folder, "--tensorboard")
    return replace(output, tensorboard=folder)


def main() -> None:
    """The console script. Faults that the user can act on are sentences on standard error; all else is our bug."""
    from profiler_doctor.analyzer.errors import UserError

    _open_what_is_closed()
    try:
        app()
    except UserError as error:
        sys.stderr.write(f"profiler-doctor: {error}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write would fail again at the very end
        sys.stderr.write(f"profiler-doctor: {error.filename or 'The output'} cannot be written: {error.strerror}.\n")
        sys.exit(2)


def _open_what_is_closed() -> None:
    """Give standard streams that the shell has closed (`>&-`) a place, so that no file of ours takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
