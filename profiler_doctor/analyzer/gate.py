"""What a check says: counters held against counters, budgets against both, time against time, and the exit code.

Counters are compared exactly and decide by themselves. Time decides only where a statistical test does. Whatever could
not be compared is said, and never passes silently for a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from profiler_doctor.analyzer.counters import FINDINGS, HASHES, Counters, Value
from profiler_doctor.analyzer.errors import ExitCode

SCHEMA_VERSION = 1
Status = Literal["same", "worse", "better", "allowed", "changed", "information", "unknown", "not comparable"]
TimeVerdict = Literal["pass", "faster", "regression", "inconclusive", "not comparable", "not measured"]
OPS = "ops."
"""Before the name of an op whose calls are judged by themselves, because the number of all ops is no counter."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One counter on both sides; None: not known there."""

    name: str
    status: Status
    before: Value | None
    after: Value | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class OpChange:
    """One op whose number of calls in a window changed; None: it varies there."""

    name: str
    before: int | None
    after: int | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of the program that does more than it did, or less."""

    file: str
    line: int
    code: str
    """The line's text."""
    before: int
    after: int
    """Ops that a window calls from this line."""
    ops: tuple[str, ...]
    """The ops whose number changed there."""
    side: Literal["head", "base"] = "head"
    """Whose file and line it is; a line that is gone stands only in the base."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A limit from the settings, and what was found."""

    name: str
    limit: str
    value: str
    kept: bool


@dataclass(frozen=True, kw_only=True)
class TimeChange:
    """Time per step on both sides. `ratio` above 1: the head takes longer; `low` and `high` are its interval."""

    verdict: TimeVerdict
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float | None = None
    """Share by which a step may take longer."""
    clock: str | None = None
    before_ns: int | None = None
    after_ns: int | None = None
    pairs: int = 0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One workload, checked."""

    name: str
    command: tuple[str, ...]
    against: str
    """What it was held against: a revision, or the baseline's file."""
    counters: Mapping[str, Value] = field(default_factory=dict)
    """The head's own, whatever it is held against."""
    rows: tuple[Row, ...] = ()
    ops: tuple[OpChange, ...] = ()
    budgets: tuple[Budget, ...] = ()
    time: TimeChange = TimeChange(verdict="not measured", reason="time was not asked for")
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""
    """Why nothing could be compared; empty: it could."""
    updated: bool = False
    """The baseline was written anew: nothing is held against anything."""

    @property
    def regressions(self) -> tuple[str, ...]:
        """A sentence for each thing that got worse or is not allowed."""
        return tuple(_regressions(self))

    @property
    def doubts(self) -> tuple[str, ...]:
        """A sentence for each thing that could not be decided."""
        return tuple(_doubts(self))

    @property
    def exit_code(self) -> ExitCode:
        """Worse comes before undecided."""
        if self.regressions:
            return ExitCode.FINDINGS
        return ExitCode.INCONCLUSIVE if self.doubts else ExitCode.FINE


@dataclass(frozen=True, kw_only=True)
class Check:
    """All workloads of one check: what reports show."""

    workloads: tuple[Checked, ...]
    environment: Mapping[str, object] = field(default_factory=dict)
    strict: bool = False
    schema_version: int = SCHEMA_VERSION

    @property
    def exit_code(self) -> ExitCode:
        """The gravest of the workloads'; `strict` lets nothing undecided pass."""
        codes = {workload.exit_code for workload in self.workloads}
        if ExitCode.FINDINGS in codes:
            return ExitCode.FINDINGS
        if ExitCode.INCONCLUSIVE in codes:
            return ExitCode.FINDINGS if self.strict else ExitCode.INCONCLUSIVE
        return ExitCode.FINE

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if all(workload.updated for workload in self.workloads):
            return "The baseline was written; nothing was compared."
        worse = [line for workload in self.workloads for line in workload.regressions]
        doubts = [line for workload in self.workloads for line in workload.doubts]
        more = f" and {len(worse) - 1} more" if len(worse) > 1 else ""
        if worse:
            return f"Performance got worse: {worse[0]}{more}."
        if doubts and all(workload.problem and not workload.budgets for workload in self.workloads):
            return f"Nothing was compared: {doubts[0]}."
        if doubts:
            return f"No regression was found, but not everything could be compared: {doubts[0]}."
        return "No regression: the counters are as they were, and nothing else says otherwise."


def compared(before: Counters, after: Counters, tolerances: Mapping[str, float]) -> tuple[Row, ...]:
    """Each counter on both sides, in the order of the base's. `tolerances`: name → share by which it may grow."""
    names = list(dict.fromkeys((*before.exact, *after.exact, *before.information, *after.information)))
    rows = [_row(name, before, after, tolerances) for name in names if name not in HASHES]
    if "ops" in before.information or "ops" in after.information:
        rows += [row for change in op_changes(before, after) if (row := _op_row(change, tolerances))]
    moved = any(row.status in ("worse", "better", "allowed") for row in rows)
    hashes = [_hash_row(name, before, after, moved) for name in HASHES if name in names]
    return (*rows, *hashes)


def op_changes(before: Counters, after: Counters) -> tuple[OpChange, ...]:
    """The ops whose number of calls changed, the largest change first; those that vary on a side are left out."""
    names = sorted({*before.ops, *after.ops} - before.varying - after.varying)
    found = [OpChange(name=name, before=before.ops.get(name, 0), after=after.ops.get(name, 0)) for name in names]
    changed = [change for change in found if change.before != change.after]
    return tuple(sorted(changed, key=lambda change: (-abs((change.after or 0) - (change.before or 0)), change.name)))


def not_comparable(rows: Sequence[Row], why: str) -> tuple[Row, ...]:
    """The same rows where the circumstances differ: a counter that is equal still is, and no other says anything."""
    return tuple(
        Row(name=row.name, status="not comparable", before=row.before, after=row.after, note=why)
        if row.status in ("worse", "better", "allowed", "changed")
        else row
        for row in rows
    )


def budgets(counters: Counters, limits: Mapping[str, float], forbidden: Sequence[str]) -> tuple[Budget, ...]:
    """The limits of the settings against one side's counters; what varies is taken at its largest."""
    found = []
    for name, limit in limits.items():
        value = _largest(counters, name)
        found.append(Budget(name=f"max_{name}", limit=f"{limit:g}", value=f"{value:g}", kept=value <= limit))
    for code in forbidden:
        count = counters.exact.get(FINDINGS + code, 0)
        kept = not (isinstance(count, int) and count > 0)
        found.append(Budget(name=f"forbid {code}", limit="0", value=str(count), kept=kept))
    return tuple(found)


def _largest(counters: Counters, name: str) -> float:
    seen = (*counters.information.get(name, ()), counters.exact.get(name, 0))
    return max(float(value) for value in seen if isinstance(value, int))


def _row(name: str, before: Counters, after: Counters, tolerances: Mapping[str, float]) -> Row:
    if name in before.information or name in after.information:
        one, two = (_shown(name, side) for side in (before, after))
        return Row(name=name, status="information", before=one, after=two, note="it varies, so it is no counter")
    one, two = _known(name, before), _known(name, after)
    if one is None or two is None:
        return Row(name=name, status="unknown", before=one, after=two, note="only one side has it")
    return _number_row(name, int(one), int(two), tolerances)


def _number_row(name: str, one: int, two: int, tolerances: Mapping[str, float]) -> Row:
    if one == two:
        return Row(name=name, status="same", before=one, after=two)
    if two < one:
        return Row(name=name, status="better", before=one, after=two)
    allowed = tolerances.get(name, 0.0)
    if allowed and two <= one * (1 + allowed):
        return Row(name=name, status="allowed", before=one, after=two, note=f"within the tolerance of {allowed:.3g}")
    return Row(name=name, status="worse", before=one, after=two)


def _op_row(change: OpChange, tolerances: Mapping[str, float]) -> Row | None:
    if change.before is None or change.after is None:
        return None
    return _number_row(OPS + change.name, change.before, change.after, tolerances)


def _hash_row(name: str, before: Counters, after: Counters, moved: bool) -> Row:
    if name in before.information or name in after.information:
        return Row(name=name, status="information", before=None, after=None, note="it varies, so it is no counter")
    one, two = before.exact.get(name), after.exact.get(name)
    if one is None or two is None:
        return Row(name=name, status="unknown", before=one, after=two, note="only one side has it")
    if one == two:
        return Row(name=name, status="same", before=one, after=two)
    if moved:
        return Row(name=name, status="changed", before=one, after=two, note="the counters say how")
    what = "order" if name == "op_sequence" else "order, shapes, types or layouts"
    return Row(name=name, status="worse", before=one, after=two, note=f"no count changed, but the ops' {what} did")


def _known(name: str, side: Counters) -> Value | None:
    """A finding or an op that is not listed is not there; any other counter that is not listed was never counted."""
    missing = 0 if name.startswith(FINDINGS) else None
    return side.exact.get(name, missing)


def _shown(name: str, side: Counters) -> Value | None:
    seen = side.information.get(name)
    return f"{min(seen, key=str)} … {max(seen, key=str)}" if seen else side.exact.get(name)


def _regressions(checked: Checked) -> Iterator[str]:
    for row in checked.rows:
        if row.status == "worse":
            yield f"{row.name} {row.before} → {row.after}" if not row.note else f"{row.name} changed ({row.note})"
    for budget in checked.budgets:
        if not budget.kept:
            yield f"{budget.name} is broken ({budget.value} against {budget.limit})"
    if checked.time.verdict == "regression":
        yield checked.time.reason


def _doubts(checked: Checked) -> Iterator[str]:
    if checked.problem:
        yield checked.problem
    differing = [row for row in checked.rows if row.status == "not comparable"]
    if differing:
        number = "1 counter differs" if len(differing) == 1 else f"{len(differing)} counters differ"
        yield f"{number} ({differing[0].name} first), but {differing[0].note}; --base REV compares both here and now"
    if checked.time.verdict in ("inconclusive", "not comparable"):
        yield checked.time.reason
