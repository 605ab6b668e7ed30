"""The sentences we end on when something is wrong, each with the exit code that goes with it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What our process says to the shell (the same for every verb)."""

    FINE = 0
    FINDINGS = 1
    UNUSABLE = 2
    INCONCLUSIVE = 3


class UserError(Exception):
    """A fault the user can act on. The message says what, where, why and what to do; `cli.main` prints it and exits."""

    exit_code: ExitCode = ExitCode.UNUSABLE


class UnreadableTrace(UserError):
    """The input is not a trace that any of our readers knows, or it breaks off before the first event."""


class ScriptFailed(UserError):
    """The user's script ended with an error of its own before there was anything to diagnose."""


class CannotWrite(UserError):
    """The file that was named, or one in the folder that was named, cannot be written."""


class NotComparable(UserError):
    """Two things were to be compared that do not measure the same."""

    exit_code = ExitCode.INCONCLUSIVE
