"""A check as SARIF 2.1.0, for code scanning: a result for everything that got worse or could not be decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from profiler_doctor import __version__
from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.reports import check_words, wording

MOST = 5_000
"""Results that GitHub takes of one run."""
DRAFT = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"worse": "error", "not comparable": "warning"}
MESSAGE = 1_000
Json = dict[str, Any]


def encoded(check: Check) -> bytes:
    """The log, indented."""
    results = [result for workload in check.workloads for result in _results(workload)][:MOST]
    rules = {str(result["ruleId"]): result.pop("about") for result in results}
    driver = {
        "name": "profiler-doctor",
        "version": __version__,
        "rules": [{"id": name, "shortDescription": {"text": about}} for name, about in rules.items()],
    }
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return f"{json.dumps({'$schema': DRAFT, 'version': '2.1.0', 'runs': [run]}, indent=2)}\n".encode()


def _results(checked: Checked) -> Iterator[Json]:
    for row in checked.rows:
        if row.status in LEVELS:
            sides = f"{check_words.value(row, row.before)} → {check_words.value(row, row.after)}"
            said = f"{check_words.name(row)}: {sides} {row.note}".rstrip()
            yield _result(
                checked, f"check/{row.name}", LEVELS[row.status], (said, f"{check_words.name(row)} in a step")
            )
    for budget in checked.budgets:
        if not budget.kept:
            said = f"{budget.name} = {budget.limit} is broken: it is {budget.value}"
            yield _result(checked, f"check/{budget.name}", "error", (said, f"the budget {budget.name}"))
    if checked.time.verdict in ("regression", "inconclusive", "not comparable"):
        level = "error" if checked.time.verdict == "regression" else "warning"
        yield _result(checked, "check/time", level, (check_words.time(checked.time), "time of a step"))
    if checked.problem:
        yield _result(checked, "check/problem", "warning", (checked.problem, "what kept a check from comparing"))


def _result(checked: Checked, rule: str, level: str, words: tuple[str, str]) -> Json:
    """One result, at the lines that do more than they did; at the script's first line where none is known."""
    said, about = (wording.plain(text, MESSAGE) for text in words)
    rule = wording.plain(rule, 200)
    places = [place for place in checked.places if place.side == "head"][:10]
    found = {"ruleId": rule, "level": level, "message": {"text": f"{wording.plain(checked.name, 80)}: {said}"}}
    return {
        **found,
        "locations": [_location(place.file, place.line) for place in places] or [_location(_script(checked), 1)],
        "partialFingerprints": {"workload/v1": f"{wording.plain(checked.name, 80)}:{rule}"},
        "about": about,
    }


def _location(file: str, line: int) -> Mapping[str, object]:
    uri = quote(str(PurePosixPath(file.replace("\\", "/"))).encode("utf-8", "replace"))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(line, 1)}}}


def _script(checked: Checked) -> str:
    """The file that was run; of a module its path."""
    command = checked.command
    if len(command) > 1 and command[0] == "-m":
        return command[1].replace(".", "/") + ".py"
    return command[0] if command else checked.name
