"""Which rules the user wants asked, from the command line and the project's settings together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from profiler_doctor.analyzer.engine import Selection
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import Found, find
from profiler_doctor.analyzer.settings import settings


class UnknownRule(UserError):
    """A word on the command line or in the settings that names no rule."""


def every_rule() -> Found[Rule]:
    """All rules that are installed."""
    return find("profiler_doctor.rules", Rule)


def selection(rules: Iterable[Rule], select: tuple[str, ...], ignore: tuple[str, ...]) -> Selection:
    """What to ask: the command line adds to the project's settings. Raises UnknownRule for any other word."""
    project = settings(Path.cwd())
    chosen = Selection(
        select=_words(select) or project.select,
        ignore=_words(ignore) + project.ignore,
        limits=project.limits,
        folders=(Path.cwd(),),
    )
    known = {word for rule in rules for word in (rule.code, rule.name, rule.code.rstrip("0123456789"))} | {"all"}
    for word in (*chosen.select, *chosen.ignore, *chosen.limits):
        if word not in known:
            raise UnknownRule(f"There is no rule, family or name {word!r}. `profiler-doctor rules` lists them.")
    return chosen


def _words(given: tuple[str, ...]) -> tuple[str, ...]:
    """Each option may be given several times, and each may hold several words: --select SYN,LCH001."""
    return tuple(word.strip() for option in given for word in option.split(",") if word.strip())
