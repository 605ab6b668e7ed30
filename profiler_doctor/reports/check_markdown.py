"""A check as Markdown, for a pull request's comment or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.reports import check_words, wording
from profiler_doctor.reports.markdown import LIMIT, escaped, inline_code

CUT = "\n_Cut here to fit into a comment; check.json has the rest._\n"
ROWS = 60
MARKS = {"pass": "✅", "worse": "❌", "undecided": "❔", "unusable": "❌", "updated": "✏️"}
"""Words stand beside them: a mark alone says nothing to a screen reader."""


def markdown(check: Check) -> bytes:
    """At most LIMIT bytes; sections that do not fit are left out, the last line says so."""
    page = ""
    for section in _sections(check):
        if len((page + section + CUT).encode()) > LIMIT:
            return (page + CUT).encode()
        page += section
    return page.encode()


def _sections(check: Check) -> Iterator[str]:
    """The verdict, then a table of the workloads, then what changed in each of them."""
    yield f"## Profiler Doctor: performance check\n\n**{escaped(check.sentence, 1000)}**\n"
    if len(check.workloads) > 1:
        rows = [
            (
                f"{MARKS[check_words.state(one)]} {check_words.state(one)}",
                escaped(one.name, 80),
                check_words.counted(one),
            )
            for one in check.workloads
        ]
        yield _table(("", "workload", "counters"), rows[:ROWS])
    for workload in sorted(check.workloads, key=lambda one: -int(bool(one.regressions))):
        yield from _workload(workload)


def _workload(checked: Checked) -> Iterator[str]:
    state = check_words.state(checked)
    command = inline_code(" ".join(checked.command))
    yield (
        f"\n### {MARKS[state]} {escaped(checked.name, 80)}: {state}\n\n{command} against "
        f"{escaped(checked.against, 200)}. {check_words.counted(checked)}\n"
    )
    if checked.problem:
        yield f"\n{escaped(checked.problem, 1000)}.\n"
    yield _counters(checked)
    yield _ops(checked)
    yield _listed("Where", [escaped(check_words.place(place), 400) for place in checked.places[:ROWS]])
    yield _listed(
        "Budgets",
        [
            f"{'kept' if budget.kept else '**broken**'}: {escaped(budget.name, 80)} = {escaped(budget.limit, 40)}, "
            f"it is {escaped(budget.value, 40)}"
            for budget in checked.budgets
        ],
    )
    said = check_words.time(checked.time)
    yield f"\n{escaped(said, 1000)}\n" if said else ""
    yield "".join(f"\nNote: {escaped(note, 600)}.\n" for note in checked.notes)


def _counters(checked: Checked) -> str:
    rows = [tuple(escaped(cell, 200) for cell in cells) for cells in check_words.cells(checked)[:ROWS]]
    return _table(check_words.HEADINGS, rows)


def _ops(checked: Checked) -> str:
    changes = list(check_words.op_changes(checked))
    rows = [(inline_code(op).replace("|", "\\|"), before, after) for op, before, after in changes[:ROWS]]
    more = f"\n{wording.count(len(changes) - ROWS)} more ops changed.\n" if len(changes) > ROWS else ""
    return _table(("op", "calls before", "calls after"), rows) + more


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join(["", lines[0], "|" + " --- |" * len(head), *lines[1:]]) + "\n"


def _listed(heading: str, lines: Sequence[str]) -> str:
    return f"\n**{heading}**\n\n" + "".join(f"- {line}\n" for line in lines) if lines else ""
