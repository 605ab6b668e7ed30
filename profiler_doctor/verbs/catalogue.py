"""The catalogue in docs/: every rule and every fix on a page, made from their files by `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from profiler_doctor.analyzer import document
from profiler_doctor.analyzer.files import write_whole
from profiler_doctor.analyzer.kinds import Fix, Rule
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.suppressions import family_of
from profiler_doctor.verbs.entries import anchor, fix_entry, rule_entry

MADE = "<!-- Made by `make docs` from the docstrings: change those. -->"
RULES_START = """\
# The rules

Each rule is one file in `profiler_doctor/rules/`, and this page is made from them. `profiler-doctor explain CODE`
prints one entry. Rules whose code begins with MSR speak of the measurement: they qualify what the others say and are no
findings themselves. A share is of the step, and a finding below 1 % of it is listed as "checked, does not matter".
RULES.md, which many of them name as their source, is the team's own collection of measured thresholds; it is not part
of the package, and what a rule took from it stands in the rule.

To leave a rule out: `--ignore CODE`, `ignore = ["CODE"]` in `[tool.profiler-doctor]` of pyproject.toml, or
`# profiler-doctor: ignore[CODE]` on the line that a finding names, or in the head of the function around it. Everywhere
a code (`SYN001`), a family (`SYN`) or a name (`scalar-read`) will do. What is hidden is counted in the report.
"""
FIXES_START = """\
# The fixes

Each fix is one file in `profiler_doctor/fixes/`, and this page is made from them. `profiler-doctor run` tries those
that cure what it found; `profiler-doctor verify SCRIPT --fix NAME` tries one of your choice. None edits your code: what
is to be changed for good stands under "To paste".
"""


def pages() -> dict[str, bytes]:
    """Name of each generated file in docs/ → its content."""
    rules = sorted(find("profiler_doctor.rules", Rule).items, key=lambda rule: rule.code)
    fixes = sorted(find("profiler_doctor.fixes", Fix).items, key=lambda fix: fix.name)
    shown = [fix for fix in fixes if not fix.hidden]
    return {
        "rules.md": rules_page(rules, shown).encode(),
        "fixes.md": fixes_page(shown).encode(),
        "diagnosis.schema.json": document.schema(),
    }


def rules_page(rules: Sequence[Rule], fixes: Sequence[Fix]) -> str:
    """The catalogue of rules, by family and code."""
    table = ["| code | name | what it finds |", "|---|---|---|"]
    table += [
        f"| [{rule.code}](#{anchor(f'{rule.code} {rule.name}')}) | {rule.name} | {rule.title} |" for rule in rules
    ]
    parts = [MADE, RULES_START.strip(), "\n".join(table)]
    for family, members in groupby(rules, key=lambda rule: family_of(rule.code)):
        parts.append(f"## {family}")
        parts += [rule_entry(rule, fixes, level=3).strip() for rule in members]
    return "\n\n".join(parts) + "\n"


def fixes_page(fixes: Sequence[Fix]) -> str:
    """The catalogue of fixes, by name."""
    table = ["| name | what it does | cures |", "|---|---|---|"]
    table += [f"| [{fix.name}](#{anchor(fix.name)}) | {fix.title} | {', '.join(fix.cures)} |" for fix in fixes]
    parts = [MADE, FIXES_START.strip(), "\n".join(table), *(fix_entry(fix, level=2).strip() for fix in fixes)]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the pages into the folder that is named; with `--check` only say which of them are stale."""
    check, folder = "--check" in arguments, Path(arguments[-1])
    made = pages()
    stale = [
        name for name, text in made.items() if not (folder / name).is_file() or (folder / name).read_bytes() != text
    ]
    for name in stale if not check else ():
        write_whole(folder / name, made[name])
    if check and stale:
        sys.stderr.write(f"Stale in {folder}: {', '.join(stale)}. `make docs` makes them anew.\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
