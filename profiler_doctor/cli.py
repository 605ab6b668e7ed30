"""The command line: reads the words, hands them to a verb, prints a fault as a sentence, and picks the exit code."""

from __future__ import annotations

import errno
import os
import select
import sys
from typing import Annotated

import typer

from profiler_doctor.commands import commands

app = typer.Typer(
    name="profiler-doctor",
    help="Find out why a PyTorch model is slow, try the cures, and say which of them are true.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PIPE_CLOSED = 128 + 13
"""What a shell says of a program that SIGPIPE has ended, as it ends most others whose reader has gone."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""A disk or quota that is full: a fault that the user can act on, wherever it is met."""


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


for _name, _command in commands():
    app.command(_name)(_command)


def main() -> None:
    """The console script. Faults that the user can act on are sentences on standard error; all else is our bug."""
    from profiler_doctor.analyzer.errors import UserError

    _open_what_is_closed()
    output = os.dup(1)  # what prints puts another in its place when its reader has gone
    try:
        app()
    except SystemExit as ended:
        sys.exit(PIPE_CLOSED if _nobody_reads(output) and ended.code == 1 else ended.code)
    except UserError as error:
        sys.stderr.write(f"profiler-doctor: {error}\n")
        sys.exit(error.exit_code)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not _somewhere():
            sys.stderr.write("profiler-doctor: the current folder is no longer there. Change to another one.\n")
            sys.exit(2)
        if error.errno not in FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write would fail again at the very end
        sys.stderr.write(f"profiler-doctor: {error.filename or 'The output'} cannot be written: {error.strerror}.\n")
        sys.exit(2)


def _nobody_reads(output: int) -> bool:
    """Whether a descriptor is a pipe whose reader has gone. What is still to be written then goes nowhere."""
    asked = select.poll()
    asked.register(output, 0)
    gone = any(events & select.POLLERR for _, events in asked.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return gone


def _somewhere() -> bool:
    """Whether the current folder exists."""
    try:
        return bool(os.getcwd())  # noqa: PTH109  # nothing is needed of pathlib before the verb has loaded it
    except FileNotFoundError:
        return False


def _open_what_is_closed() -> None:
    """Give standard streams that the shell has closed (`>&-`) a place, so that no file of ours takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
