"""Two recordings lined up, as a page of its own: one file, no request, readable without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler_doctor.analyzer.comparison import Amount, Change, Comparison
from profiler_doctor.reports import comparison as told
from profiler_doctor.reports import page_frame, wording

ROWS = 200
"""Of each table, the largest change first: three such tables of the longest names stay under 2 MB."""
HALF = 50.0
"""Percent: where a bar begins that goes to the left for less time and to the right for more."""


@dataclass(frozen=True)
class Row:
    """One name that changed. `change_ns` is the larger of its changes; `start` and `width` of its bar are percent."""

    mark: str
    name: str
    cells: tuple[str, ...]
    values: tuple[float, ...]
    """What the cells are sorted by: B's amounts, and the changes."""
    change_ns: float
    start: float
    width: float

    @property
    def tone(self) -> str:
        """Less time is good."""
        return "verified" if self.change_ns < 0 else "rejected"


@dataclass(frozen=True)
class Table:
    """One kind of thing that was lined up."""

    title: str
    summary: str
    rows: tuple[Row, ...]
    left_out: int


def page(comparison: Comparison, top: int = ROWS) -> bytes:
    """The page in UTF-8, the `top` largest changes of each table."""
    top = min(top, ROWS)
    text = (
        page_frame.templates()
        .get_template("comparison.html")
        .render(
            comparison=comparison,
            sentence=told.sentence(comparison),
            counted=told.counted(comparison),
            totals=[
                ("Counters that differ", told.counters(comparison)),
                ("Totals that differ", told.numbers(comparison)),
            ],
            tables=[_table(title, getattr(comparison, key), comparison, top) for key, title in told.TABLES],
            notes=[note.removeprefix("- ") for note in told.notes(comparison)],
            legend=told.LEGEND + comparison.unit,
            **page_frame.frame(),
        )
    )
    return text.encode("utf-8", "replace")


def _table(title: str, changes: Sequence[Change], comparison: Comparison, top: int) -> Table:
    differing = [change for change in changes if change.status != "same"]
    widest = max((change.size_ns for change in differing), default=0.0) or 1.0
    rows = tuple(_row(change, comparison, widest) for change in differing[:top])
    return Table(title, told.summary(changes), rows, max(len(differing) - top, 0))


def _row(change: Change, comparison: Comparison, widest: float) -> Row:
    host, gpu = change.host_change_ns or 0.0, change.gpu_change_ns or 0.0
    larger = gpu if abs(gpu) > abs(host) else host
    width = HALF * abs(larger) / widest
    start = HALF - width if larger < 0 else HALF
    cells = told.cells(change, comparison)
    after = change.after or Amount(count=0, host_ns=0, gpu_ns=0)
    values = (after.count, after.host_ns, host, after.gpu_ns, gpu)
    return Row(told.mark(change), wording.plain(change.name), cells, values, larger, start, width)
