"""A check as text, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler_doctor.analyzer.gate import Check, Checked
from profiler_doctor.reports import check_words, wording

OPS = 12
PLACES = 12


def text(check: Check) -> str:
    """The verdict first, then each workload with what changed in it."""
    lines = [check.sentence, ""]
    for workload in check.workloads:
        lines += [*_workload(workload), ""]
    return "\n".join(lines)


def _workload(checked: Checked) -> Iterator[str]:
    command = wording.plain(" ".join(checked.command), 200)
    yield f"{wording.plain(checked.name, 80)} ({command}), against {checked.against}: {check_words.state(checked)}"
    if checked.problem:
        yield f"  {checked.problem}."
    if checked.rows:
        yield f"  {check_words.counted(checked)}"
    cells = check_words.cells(checked)
    if cells:
        yield from _aligned([check_words.HEADINGS, *cells])
    yield from _more(checked)


def _more(checked: Checked) -> Iterator[str]:
    if checked.ops:
        yield "  ops that changed:"
        yield from _aligned(
            [(op, f"{before} → {after}") for op, before, after in check_words.op_changes(checked)][:OPS]
        )
    if checked.places:
        yield "  where:"
        yield from (f"    {check_words.place(place)}" for place in checked.places[:PLACES])
    for budget in checked.budgets:
        kept = "kept" if budget.kept else "BROKEN"
        yield f"  {budget.name} = {budget.limit}: {kept}, it is {budget.value}"
    said = check_words.time(checked.time)
    if said:
        yield f"  {said}"
    yield from (f"  Note: {note}." for note in checked.notes)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    return ["    " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
