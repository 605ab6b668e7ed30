"""`profiler-doctor explain CODE`: the docs of one rule or fix, as its file tells them."""

from __future__ import annotations

from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.verbs.choice import every_rule
from profiler_doctor.verbs.entries import fix_entry, rule_entry


class UnknownTopic(UserError):
    """Neither a rule nor a fix is called that."""


def explain(word: str) -> ExitCode:
    """Print the docs of the rule (by code or name) or fix (by name). Raises UnknownTopic."""
    fixes = find("profiler_doctor.fixes", Fix).items
    for rule in every_rule().items:
        if word.upper() == rule.code or word == rule.name:
            return _print(rule_entry(rule, fixes))
    for fix in fixes:
        if word == fix.name:
            return _print(fix_entry(fix))
    raise UnknownTopic(f"No rule or fix is called {word!r}. `profiler-doctor rules` lists the rules.")


def _print(text: str) -> ExitCode:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
    return ExitCode.FINE
