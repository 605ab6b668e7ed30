"""One workload, checked against another revision of the project: both are run here and now, on the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from profiler_doctor.analyzer import race
from profiler_doctor.analyzer.capture.counted import Request
from profiler_doctor.analyzer.capture.environment import machine
from profiler_doctor.analyzer.checking import CONFIRMED, check_names
from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.gate import Budget, Checked, Place, Row, TimeChange, budgets, compared, op_changes
from profiler_doctor.analyzer.lines import lines_of, places, relative_to
from profiler_doctor.analyzer.measuring import Measured
from profiler_doctor.analyzer.revision import Revision, import_path, relative, top_of
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.workloads import Workload

BREAK = "graph break"
LEAST_RACE_S = 15.0
"""Three pairs of programs have to start: below that a race need not begin."""


@dataclass(frozen=True)
class Both:
    """Both sides as they are known by now."""

    base: Measured
    head: Measured

    def confirmed(self) -> Both:
        """With one fresh process more of each."""
        return Both(self.base.confirmed(), self.head.confirmed())

    def rows(self, workload: Workload) -> tuple[Row, ...]:
        """Their counters."""
        return compared(self.base.counters, self.head.counters, workload.tolerance)

    def budgets(self, workload: Workload) -> tuple[Budget, ...]:
        """The head's."""
        return budgets(self.head.counters, workload.limits, workload.forbid)


def of_head(request: Request, where: Path) -> Request:
    """The request for the head, with imports that find this checkout."""
    return replace(request, environment={**request.environment, **import_path(top_of(where))})


def of_base(request: Request, revision: Revision, where: Path) -> Request:
    """The same program in the other checkout."""
    target = request.target
    script = None if target.script is None else relative(target.script, where)
    moved = replace(target, script=script, folder=revision.inside)
    return replace(request, target=moved, environment={**request.environment, **revision.environment})


def against_revision(
    workload: Workload, head: Measured, base_request: Request, measure: Callable[[Request], Measured], name: str
) -> tuple[Checked, Both | None]:
    """Hold a measured head against its base. A base that does not run proves no regression."""
    check_names(workload, head.counters)
    command = head.request.target.command
    try:
        both = Both(measure(base_request), head)
    except UserError as error:
        problem = f"the base could not be run: {str(error).rstrip('.')}"
        limits = budgets(head.counters, workload.limits, workload.forbid)
        return Checked(name=workload.name, command=command, against=name, budgets=limits, problem=problem), None
    both = _confirmed(both, workload)
    checked = Checked(
        name=workload.name,
        command=command,
        against=name,
        counters=dict(both.head.counters.exact),
        rows=both.rows(workload),
        ops=op_changes(both.base.counters, both.head.counters),
        budgets=both.budgets(workload),
    )
    if any(row.status == "worse" for row in checked.rows):
        checked = replace(checked, places=(*breaks(both), *places(lines_of(both.base), lines_of(head))))
    return checked, both


def breaks(both: Both) -> tuple[Place, ...]:
    """The lines at which the head's graphs end early and the base's do not."""
    folder = (both.head.request.target.folder or Path.cwd()).resolve()
    known = {(Path(one.file).name, one.reason) for one in both.base.recording.facts.compiles.breaks}
    return tuple(
        Place(
            file=relative_to(one.file, folder), line=one.line, code=one.reason, before=0, after=one.count, ops=(BREAK,)
        )
        for one in both.head.recording.facts.compiles.breaks
        if (Path(one.file).name, one.reason) not in known and one.file
    )


def raced(both: Both, tolerance: float, folder: Path) -> TimeChange:
    """Let both take turns until the time is up or it is decided. `folder` takes their logs."""
    sources = both.base.recording.source, both.head.recording.source
    request = both.head.request
    if None in sources:
        why = "no steps were found, and without steps two programs cannot take turns"
        return TimeChange(verdict="not comparable", reason=f"time is not comparable: {why}", tolerance=tolerance)
    if request.end_s - time.monotonic() < LEAST_RACE_S:
        why = "the time of --budget was spent on counting"
        return TimeChange(verdict="inconclusive", reason=f"time was not compared: {why}", tolerance=tolerance)
    sides = race.Sides(
        base=program(both.base, folder / "base"),
        head=program(both.head, folder / "head"),
        deadline_ns=int(request.end_s * 1e9),
        say=request.say,
    )
    return race.Race(sides).result(tolerance)


def program(side: Measured, folder: Path) -> Program:
    """A measured program that makes steps, as a side of turns; `folder` takes its logs."""
    folder.mkdir(parents=True, exist_ok=True)
    source = side.recording.source
    assert source is not None  # whoever lets it take turns has seen to it
    return Program(
        target=side.request.target,
        folder=folder,
        source=source,
        machine=machine(side.recording.facts),
        known_steps=side.recording.known_steps,
        silence_s=side.request.silence_s,
        environment=dict(side.request.environment),
    )


def _confirmed(both: Both, workload: Workload) -> Both:
    """Count once more, on both sides, before anything is called worse."""
    worse = any(row.status == "worse" for row in both.rows(workload))
    broken = any(not budget.kept for budget in both.budgets(workload))
    return both.confirmed() if (worse or broken) and both.head.processes < CONFIRMED else both
