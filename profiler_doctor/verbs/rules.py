"""`profiler-doctor rules`: the catalogue, one line a rule."""

from __future__ import annotations

import json
import sys

from profiler_doctor.analyzer.errors import ExitCode
from profiler_doctor.analyzer.kinds import Rule
from profiler_doctor.verbs.choice import every_rule
from profiler_doctor.verbs.output import BadOption

FORMATS = ("text", "json", "md")


def rules(format_: str) -> ExitCode:
    """Print the rules as a table, or as JSON for machines. Raises BadOption for any other format."""
    if format_ not in FORMATS:
        raise BadOption(f"--format {format_}: choose from {', '.join(FORMATS)}.")
    found = sorted(every_rule().items, key=lambda rule: rule.code)
    if format_ == "json":
        sys.stdout.write(json.dumps([_plain(rule) for rule in found], indent=2) + "\n")
    else:
        _print_table(found)
    return ExitCode.FINE


def _plain(rule: Rule) -> dict[str, object]:
    limits = {name: {"value": t.value, "unit": t.unit, "reason": t.reason} for name, t in rule.thresholds.items()}
    needs = [need.value for need in rule.needs]
    return {"code": rule.code, "name": rule.name, "title": rule.title, "needs": needs, "thresholds": limits}


def _print_table(found: list[Rule]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("code", "name", "what it finds"):
        table.add_column(heading, overflow="fold")
    for rule in found:
        table.add_row(rule.code, rule.name, rule.title)
    Console().print(table)
