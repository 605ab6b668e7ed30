"""`profiler-doctor explain CODE`: the docs of one rule or fix, as its file tells them."""

from __future__ import annotations

from profiler_doctor.analyzer.errors import ExitCode, UserError
from profiler_doctor.analyzer.kinds import Fix, Rule
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.verbs.choice import every_rule


class UnknownTopic(UserError):
    """Neither a rule nor a fix is called that."""


def explain(word: str) -> ExitCode:
    """Print the docs of the rule (by code or name) or fix (by name). Raises UnknownTopic."""
    fixes = find("profiler_doctor.fixes", Fix).items
    for rule in every_rule().items:
        if word.upper() == rule.code or word == rule.name:
            _print(f"{rule.code} {rule.name}", rule.doc + _limits(rule) + _cures(rule, fixes))
            return ExitCode.FINE
    for fix in fixes:
        if word == fix.name:
            _print(fix.name, f"{fix.doc}\n## To paste\n\n```python\n{fix.snippet.strip()}\n```\n")
            return ExitCode.FINE
    raise UnknownTopic(f"No rule or fix is called {word!r}. `profiler-doctor rules` lists the rules.")


def _limits(rule: Rule) -> str:
    if not rule.thresholds:
        return ""
    rows = [f"- `{name}` = {t.value:g} {t.unit}: {t.reason}" for name, t in rule.thresholds.items()]
    heading = f"\n## Thresholds\n\nSet in `[tool.profiler-doctor.rules.{rule.code}]` of pyproject.toml.\n\n"
    return heading + "\n".join(rows) + "\n"


def _cures(rule: Rule, fixes: tuple[Fix, ...]) -> str:
    names = [fix.name for fix in fixes if rule.code in fix.cures and not fix.hidden]
    return f"\n## Fixes that are tried\n\n{', '.join(names)}\n" if names else ""


def _print(title: str, doc: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(f"# {title}\n\n{doc.strip()}\n"))
