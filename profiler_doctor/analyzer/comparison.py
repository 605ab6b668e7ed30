"""Two recordings of one program lined up by op, module and kernel: what changed, and by how much.

Values in, values out: sides are made in `sides`, and whether they may be compared at all is settled in `comparable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from profiler_doctor.analyzer import two_documents
from profiler_doctor.analyzer.counts import Counts
from profiler_doctor.analyzer.gate import Checked, Row
from profiler_doctor.analyzer.totals import StepTime

Verdict = Literal["faster", "slower", "same", "inconclusive"]
Status = Literal["changed", "added", "removed", "same", "unknown"]
Unit = Literal["step", "recording"]
SAME = 0.02
"""Step times within 2 % of each other are called the same: what trials ask for too (docs/tour.md, "Statistics")."""
STEPS_TO_JUDGE = 3
"""From so many steps on a side has a spread."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """What one op, module or kernel took on one side in the whole recording.

    `host_ns` of an op is its own time (less the ops inside it), of a module with the modules inside it; of a kernel 0.
    """

    count: int
    host_ns: int
    gpu_ns: int


@dataclass(frozen=True, kw_only=True)
class Range:
    """The least and the most that something took in any step, host and device time added up."""

    low_ns: int
    high_ns: int


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two recordings, reduced to what can be lined up."""

    name: str
    ran_on: Literal["gpu", "cpu", "unrecorded"]
    """`unrecorded`: a GPU was driven, and what it did is not in the trace."""
    devices: frozenset[str]
    """Names of the devices that worked (of the CPU, where no other did); empty: not known."""
    steps: int
    step_ns: StepTime
    timed: int
    """How many steps `step_ns` is of."""
    profiled: bool
    """Whether `step_ns` is of steps that the profiler slowed down."""
    numbers: Mapping[str, int]
    """Totals of the recording by name, in the document's words."""
    tables: Mapping[str, Mapping[str, Amount]]
    """Table (ops, modules, kernels) → name → what it took."""
    cut: frozenset[str] = frozenset()
    """Tables of which only the top rows are known."""
    ranges: Mapping[str, Mapping[str, Range]] = field(default_factory=dict)
    """Table → name → range over the steps, where there are enough of them."""
    product_flops: int = 0
    """Operations of all matrix products and convolutions whose shapes were recorded."""
    roots: frozenset[str] = frozenset()
    """Classes of the outermost modules."""
    counts: Counts | None = None
    environment: Mapping[str, object] = field(default_factory=dict)
    """The document's, on which its counters depend."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One name on both sides. Changes are after less before, in ns per unit; None where one side is not known."""

    name: str
    status: Status
    before: Amount | None
    after: Amount | None
    host_change_ns: float | None
    gpu_change_ns: float | None
    apart: bool | None = None
    """Whether every step of one side took longer than every step of the other; None: too few steps to tell."""

    @property
    def size_ns(self) -> float:
        """The larger of its changes, whatever their direction."""
        return max(abs(self.host_change_ns or 0.0), abs(self.gpu_change_ns or 0.0))


@dataclass(frozen=True, kw_only=True)
class NumberChange:
    """One total on both sides, per unit."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class StepChange:
    """The step times of both sides; `ratio` above 1: after is faster. None where it cannot be said."""

    before: StepTime
    after: StepTime
    ratio: float | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that changed, the largest change first in each table."""

    before: str
    after: str
    unit: Unit
    steps_before: int
    steps_after: int
    step: StepChange
    numbers: tuple[NumberChange, ...]
    ops: tuple[Change, ...]
    modules: tuple[Change, ...]
    kernels: tuple[Change, ...]
    notes: tuple[str, ...]
    counters: tuple[Row, ...] = ()
    """What a check says of the counters, where both sides are documents that hold them."""
    schema_version: int = 1

    @property
    def checked(self) -> Checked:
        """The counters, as a check judges them: its regressions, its doubts and its exit code."""
        return Checked(name=self.after, command=(), against=self.before, rows=self.counters)


def lined_up(before: Side, after: Side, notes: tuple[str, ...] = ()) -> Comparison:
    """The comparison of two sides that may be compared; times are per step where both have steps."""
    unit: Unit = "step" if before.steps and after.steps else "recording"
    per = (before.steps, after.steps) if unit == "step" else (1, 1)
    return Comparison(
        before=before.name,
        after=after.name,
        unit=unit,
        steps_before=before.steps,
        steps_after=after.steps,
        step=_step(before, after),
        numbers=tuple(_numbers(before, after, per)),
        ops=_changes("ops", before, after, per),
        modules=_changes("modules", before, after, per),
        kernels=_changes("kernels", before, after, per),
        notes=notes,
        counters=_counters(before, after),
    )


def _counters(before: Side, after: Side) -> tuple[Row, ...]:
    if before.counts is None or after.counts is None:
        return ()
    return two_documents.rows((before.counts, before.environment), (after.counts, after.environment))


def _step(before: Side, after: Side) -> StepChange:
    ratio, verdict, reason = _step_verdict(before, after)
    return StepChange(before=before.step_ns, after=after.step_ns, ratio=ratio, verdict=verdict, reason=reason)


def _step_verdict(before: Side, after: Side) -> tuple[float | None, Verdict, str]:
    """The ratio, what it amounts to, and why."""
    one, two = before.step_ns, after.step_ns
    if not one.median or not two.median:
        return None, "inconclusive", "not both have step times"
    if before.profiled != after.profiled:
        return None, "inconclusive", "one was timed with the profiler on, the other without"
    ratio = one.median / two.median
    if min(before.timed, after.timed) < STEPS_TO_JUDGE:
        return ratio, "inconclusive", f"fewer than {STEPS_TO_JUDGE} steps to judge by"
    return ratio, *_judged(one, two, ratio)


def _judged(one: StepTime, two: StepTime, ratio: float) -> tuple[Verdict, str]:
    """Faster or slower where the middle halves of the step times do not touch; two recordings prove no more."""
    if abs(ratio - 1) < SAME:
        return "same", f"within {SAME:.0%}"
    if (two.high or 0) < (one.low or 0):
        return "faster", "the middle halves of the step times lie apart"
    if (two.low or 0) > (one.high or 0):
        return "slower", "the middle halves of the step times lie apart"
    return "inconclusive", "the step times spread more than they differ"


def _numbers(before: Side, after: Side, per: tuple[int, int]) -> list[NumberChange]:
    names = [name for name in before.numbers if name in after.numbers]
    return [
        NumberChange(name=name, before=before.numbers[name] / per[0], after=after.numbers[name] / per[1])
        for name in names
        if before.numbers[name] or after.numbers[name]
    ]


def _changes(table: str, before: Side, after: Side, per: tuple[int, int]) -> tuple[Change, ...]:
    one, two = before.tables[table], after.tables[table]
    found = [_change(name, table, (before, after), per) for name in {**one, **two}]
    return tuple(sorted(found, key=lambda change: (-change.size_ns, change.name)))


def _change(name: str, table: str, sides: tuple[Side, Side], per: tuple[int, int]) -> Change:
    before, after = (side.tables[table].get(name) for side in sides)
    unseen = any(amount is None and table in side.cut for amount, side in zip((before, after), sides, strict=True))
    status: Status = "unknown" if unseen else _status(before, after, per)
    nothing = Amount(count=0, host_ns=0, gpu_ns=0)
    one, two = before or nothing, after or nothing
    return Change(
        name=name,
        status=status,
        before=before,
        after=after,
        host_change_ns=None if unseen else two.host_ns / per[1] - one.host_ns / per[0],
        gpu_change_ns=None if unseen else two.gpu_ns / per[1] - one.gpu_ns / per[0],
        apart=_apart(sides, table, name),
    )


def _status(before: Amount | None, after: Amount | None, per: tuple[int, int]) -> Status:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    pairs = ((before.count, after.count), (before.host_ns, after.host_ns), (before.gpu_ns, after.gpu_ns))
    return "same" if all(one * per[1] == two * per[0] for one, two in pairs) else "changed"


def _apart(sides: tuple[Side, Side], table: str, name: str) -> bool | None:
    if not all(side.ranges.get(table) for side in sides):
        return None
    nothing = Range(low_ns=0, high_ns=0)  # it ran in no step of that side
    one, two = (side.ranges[table].get(name, nothing) for side in sides)
    return one.high_ns < two.low_ns or two.high_ns < one.low_ns
