"""A rule or a fix as a piece of Markdown, made from its file alone: what `explain` prints and the catalogue holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import dedent

from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix, Rule

HEADING = re.compile(r"^(?P<title>\S.*)\n(?P<text>(?:    .*(?:\n|$)|\n)+)", re.MULTILINE)
"""A line with an indented text below it, as rules' docstrings have them."""
SAID = re.compile(r"^(?P<title>[A-Z][^:.\n]{2,40}): ", re.MULTILINE)
"""The beginning of a paragraph that says what it is about, as fixes' docstrings have them."""


def rule_entry(rule: Rule, fixes: Sequence[Fix], level: int = 1) -> str:
    """Everything that is known of a rule; `level` is the depth of its heading."""
    title, _, rest = rule.doc.strip().partition("\n")
    parts = [_heading(f"{rule.code} {rule.name}", level), title, _sections(rest.strip(), level + 1)]
    needs = ", ".join(need.value for need in rule.needs)
    if needs:
        parts += [_heading("Needs", level + 1), f"{needs}. Without, the rule is skipped and says so."]
    if rule.vetoes:
        parts += [_heading("Vetoes", level + 1), f"Where it is grave, {', '.join(rule.vetoes)} is not believed."]
    parts += _limits(rule, level + 1) + _cures(rule, fixes, level + 1)
    return "\n\n".join(part for part in parts if part) + "\n"


def fix_entry(fix: Fix, level: int = 1) -> str:
    """Everything that is known of a fix; `level` is the depth of its heading."""
    title, _, rest = fix.doc.strip().partition("\n")
    said = SAID.sub(lambda match: f"**{match['title']}:** ", _plain(rest.strip()))
    facts = [
        f"- Cures: {', '.join(fix.cures) or 'nothing by itself'}.",
        f"- Changes numbers: {fix.changes_numbers or 'not at all'}.",
        f"- Decided on the {fix.clock} clock where the work runs on a CPU.",
    ]
    facts += ["- Compiles: dear at its first call."] if fix.rank >= COMPILER_RANK else []
    paste = f"```python\n{fix.snippet.strip()}\n```" if fix.snippet.strip() else ""
    parts = [_heading(fix.name, level), title, said, "\n".join(facts)]
    parts += [_heading("To paste", level + 1), paste] if paste else []
    return "\n\n".join(part for part in parts if part) + "\n"


def anchor(heading: str) -> str:
    """What a heading of these pages is linked by."""
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def _sections(text: str, level: int) -> str:
    return HEADING.sub(lambda part: f"{_heading(part['title'], level)}\n\n{_plain(part['text'])}\n\n", text).strip()


def _plain(text: str) -> str:
    return dedent(text.strip("\n")).strip()


def _heading(words: str, level: int) -> str:
    return f"{'#' * level} {words}"


def _limits(rule: Rule, level: int) -> list[str]:
    if not rule.thresholds:
        return []
    where = f"Set in `[tool.profiler-doctor.rules.{rule.code}]` of pyproject.toml."
    rows = [f"- `{name}` = {t.value:g} {t.unit}: {t.reason}" for name, t in rule.thresholds.items()]
    return [_heading("Thresholds", level), where, "\n".join(rows)]


def _cures(rule: Rule, fixes: Sequence[Fix], level: int) -> list[str]:
    names = [fix.name for fix in fixes if rule.code in fix.cures and not fix.hidden]
    return [_heading("Fixes that are tried", level), ", ".join(names)] if names else []
