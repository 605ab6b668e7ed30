"""One workload, checked against what was stored of it: run, count, compare, and count again before anything is said."""

from __future__ import annotations

from dataclasses import dataclass, replace

from profiler_doctor.analyzer import baseline, stored_time
from profiler_doctor.analyzer.baseline import Entry
from profiler_doctor.analyzer.counters import FINDINGS, Counters
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.gate import Budget, Checked, Row, budgets, compared, not_comparable, op_changes
from profiler_doctor.analyzer.lines import lines_of, places_since
from profiler_doctor.analyzer.measuring import Measured
from profiler_doctor.analyzer.workloads import Workload

CONFIRMED = 2
"""Processes that must agree before a counter is called worse."""


class UnknownCounter(UserError):
    """A budget names a counter that there is none of."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The counters of two sides, and the head as it is known by now."""

    head: Measured
    rows: tuple[Row, ...]
    budgets: tuple[Budget, ...]


def against_baseline(workload: Workload, head: Measured, entry: Entry, before_ns: int) -> tuple[Checked, Measured]:
    """Hold a measured program against what is stored of it. `before_ns`: `machine_ns()` before the program ran."""
    differing = [*baseline.differing(entry, head.circumstances, time=False)]
    if entry.window_steps != head.counters.window_steps:
        differing.append(f"its windows were of {entry.window_steps} steps and are of {head.counters.window_steps}")
    found = with_confirmation(entry.as_counters(), head, workload, "; ".join(differing))
    head = found.head
    checked = Checked(
        name=workload.name,
        command=head.request.target.command,
        against="the baseline",
        counters=dict(head.counters.exact),
        rows=found.rows,
        ops=op_changes(entry.as_counters(), head.counters),
        budgets=found.budgets,
        notes=_notes(entry, head),
    )
    if checked.regressions and entry.lines:
        checked = replace(checked, places=places_since(entry.lines, lines_of(head)))
    if workload.time is None:
        return checked, head
    if not stored_time.hindrance(entry, head.circumstances, before_ns):
        head = enough(head, stored_time.PROCESSES)
    return replace(checked, time=stored_time.compared(entry, head, workload.time, before_ns)), head


def with_confirmation(before: Counters, head: Measured, workload: Workload, differing: str) -> Compared:
    """Compare; where something is worse, count once more in a fresh process and compare what both agree on.

    `differing`: what differs in the circumstances, in words; then only counters that are equal say anything.
    """
    check_names(workload, head.counters)
    while True:
        rows = compared(before, head.counters, workload.tolerance)
        if differing:
            rows = not_comparable(rows, differing)
        limits = budgets(head.counters, workload.limits, workload.forbid)
        bad = any(row.status == "worse" for row in rows) or any(not budget.kept for budget in limits)
        if not bad or head.processes >= CONFIRMED:
            return Compared(head=head, rows=rows, budgets=limits)
        head = head.confirmed()


def enough(head: Measured, processes: int) -> Measured:
    """The same side, known from so many fresh processes."""
    while head.processes < processes and head.times_ns:
        head = head.confirmed()
    return head


def entry_of(workload: Workload, head: Measured, before_ns: int) -> tuple[Entry, Measured]:
    """What is to be stored of a program: only what fresh processes agree on."""
    head = head.confirmed() if head.processes < CONFIRMED else head
    made = Entry.of(head.counters, head.request.target.command, head.circumstances)
    made = replace(made, lines={line.key: line.calls for line in lines_of(head)})
    if workload.time is None:
        return made, head
    head = enough(head, stored_time.PROCESSES)
    return replace(made, time=stored_time.stored(head, before_ns)), head


def check_names(workload: Workload, counters: Counters) -> None:
    """Raise UnknownCounter for a budget or tolerance of a counter that does not exist: it would never be broken."""
    known = {*counters.exact, *counters.information}
    for name in (*workload.limits, *workload.tolerance):
        if name not in known and not name.startswith((FINDINGS, "copied_bytes_", "ops.")):
            listed = ", ".join(sorted(name for name in known if not name.startswith(FINDINGS)))
            raise UnknownCounter(f"There is no counter {name!r} (max_{name}, or its tolerance). There are: {listed}.")


def _notes(entry: Entry, head: Measured) -> tuple[str, ...]:
    if tuple(entry.command) == head.request.target.command:
        return ()
    return (f"the baseline was made by another command: {' '.join(entry.command)}",)
