"""A check as JUnit's XML, which most CI systems show as tests: each counter, budget and time is one."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.reports import check_words, wording

Case = tuple[str, str, str]
"""Name, what became of it (passed, failure, skipped), and why."""


def encoded(check: Check) -> bytes:
    """A suite for each workload."""
    root = Element("testsuites", name="profiler-doctor check")
    for workload in check.workloads:
        cases = list(_cases(workload))
        counts = {state: sum(case[1] == state for case in cases) for state in ("failure", "skipped")}
        suite = SubElement(root, "testsuite", name=_text(workload.name), tests=str(len(cases)), errors="0")
        suite.set("failures", str(counts["failure"]))
        suite.set("skipped", str(counts["skipped"]))
        for name, state, why in cases:
            case = SubElement(suite, "testcase", classname=f"check.{_text(workload.name)}", name=_text(name), time="0")
            if state != "passed":
                SubElement(case, state, message=_text(why)).text = _text(why)
    indent(root)
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _cases(checked: Checked) -> Iterator[Case]:
    for row in checked.rows:
        said = f"{check_words.value(row, row.before)} → {check_words.value(row, row.after)} {row.note}".rstrip()
        states = {"worse": "failure", "not comparable": "skipped", "information": "skipped", "unknown": "skipped"}
        yield check_words.name(row), states.get(row.status, "passed"), said
    for budget in checked.budgets:
        said = f"{budget.value} against {budget.limit}"
        yield f"{budget.name} = {budget.limit}", "passed" if budget.kept else "failure", said
    if checked.time.verdict != "not measured":
        states = {"regression": "failure", "inconclusive": "skipped", "not comparable": "skipped"}
        yield "time of a step", states.get(checked.time.verdict, "passed"), checked.time.reason
    if checked.problem:
        yield "comparison", "skipped", checked.problem


def _text(raw: str) -> str:
    """Text that XML can hold: no control characters, no halves of surrogate pairs, no non-characters."""
    return wording.plain(raw, 1_000).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
