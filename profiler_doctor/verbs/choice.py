"""Which rules the user wants asked, from the command line and the project's settings together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profiler_doctor.analyzer.engine import Selection
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.analyzer.plugins import Found, find
from profiler_doctor.analyzer.settings import settings
from profiler_doctor.analyzer.suppressions import names


class UnknownRule(UserError):
    """A word on the command line or in the settings that names no rule."""


def every_rule() -> Found[Rule]:
    """All rules that are installed."""
    return find("profiler_doctor.rules", Rule)


def selection(rules: Sequence[Rule], select: tuple[str, ...], ignore: tuple[str, ...]) -> Selection:
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
    _check_limits(rules, chosen)
    return chosen


def _check_limits(rules: Sequence[Rule], chosen: Selection) -> None:
    """Raises UnknownRule for a threshold in the settings that no rule of that word has: it would change nothing."""
    for word, limits in chosen.limits.items():
        has = {name for rule in rules if names(rule, (word,)) for name in rule.thresholds}
        for name in limits.keys() - has:
            known = f"It has {', '.join(sorted(has))}" if has else "It has none"
            raise UnknownRule(f"tool.profiler-doctor.rules.{word}: there is no threshold {name!r}. {known}.")


def _words(given: tuple[str, ...]) -> tuple[str, ...]:
    """Each option may be given several times, and each may hold several words: --select SYN,LCH001."""
    return tuple(word.strip() for option in given for word in option.split(",") if word.strip())
