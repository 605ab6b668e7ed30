"""`profiler-doctor explain CODE`: the docs of one rule or fix, as its file tells them, or a list of all fixes."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.verbs.choice import every_rule
from profiler_doctor.verbs.entries import fix_entry, rule_entry

FIXES = "fixes"
"""The word that asks for the list of fixes."""


class UnknownTopic(UserError):
    """Neither a rule nor a fix is called that."""


def explain(word: str) -> ExitCode:
    """Print the docs of the rule (by code or name) or fix (by name). Raises UnknownTopic."""
    fixes, rules = find("profiler_doctor.fixes", Fix).items, every_rule().items
    if word == FIXES:
        return _print(_listed(fix for fix in fixes if not fix.hidden))
    for rule in rules:
        if word.upper() == rule.code or word == rule.name:
            return _print(rule_entry(rule, fixes))
    for fix in fixes:
        if word == fix.name:
            return _print(fix_entry(fix))
    names = [name for rule in rules for name in (rule.code, rule.name)] + [fix.name for fix in fixes if not fix.hidden]
    near = get_close_matches(word, names, n=3) or get_close_matches(word.upper(), names, n=3)
    meant = f" Is it {' or '.join(near)}?" if near else ""
    raise UnknownTopic(
        f"No rule or fix is called {word!r}.{meant} `profiler-doctor rules` lists the rules, "
        "`profiler-doctor explain fixes` the fixes."
    )


def _listed(fixes: Iterable[Fix]) -> str:
    """Each fix with the first line of its docs."""
    rows = sorted((fix.name, fix.doc.strip().splitlines()[0]) for fix in fixes)
    return "\n".join(f"- **{name}**: {said}" for name, said in rows)


def _print(text: str) -> ExitCode:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))
    return ExitCode.FINE
