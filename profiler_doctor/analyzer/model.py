"""The nouns of a diagnosis, exactly as they stand in `diagnosis.json`.

Frozen dataclasses of plain values: whoever holds the document needs neither torch nor pandas nor the trace. The field
names are the document's names (DESIGN.md, "The document"); they may grow, but a name never changes its meaning.
Times are integer nanoseconds, shares run from 0 to 1. Its parts lie beside it: `totals`, `tables`, `timeline`,
`counts`. They and this module import the standard library alone, because the user's process loads them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from profiler_doctor.analyzer.counts import Counts
from profiler_doctor.analyzer.tables import Tables
from profiler_doctor.analyzer.timeline import Timeline
from profiler_doctor.analyzer.totals import Totals

SCHEMA_VERSION = 1
HIDDEN_BELOW_SHARE = 0.01
"""Findings under 1 % of the step are listed as "checked, does not matter" (RULES.md, single count)."""

Status = Literal["found", "clean", "skipped", "crashed"]
TrialVerdict = Literal["verified", "rejected", "inconclusive", "not_tried"]
Clock = Literal["wall", "cpu", "gpu"]

ONLY_A_TRIAL = "only a trial can tell"
"""The `basis` of a stake for which no honest estimate exists."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The place in the user's program that a finding speaks of; what is not known is None."""

    file: str | None = None
    line: int | None = None
    module: str | None = None
    op: str | None = None
    excerpt: tuple[str, ...] = ()
    """The lines around `line` as they stood when the document was made; only for programs that we ran ourselves."""
    excerpt_from: int | None = None
    """The number of the excerpt's first line."""


@dataclass(frozen=True, kw_only=True)
class Stake:
    """What a perfect cure could bring, and how that was obtained. `share` is of the step; None: no honest estimate."""

    ns_per_step: int | None = None
    share: float | None = None
    basis: str = ONLY_A_TRIAL


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule saw, once. `evidence` holds the numbers that decided, as JSON values.

    `evidence["intervals_ns"]`, where present, lists `[start, end]` in the trace's own time: the places to look at.
    """

    message: str
    stake: Stake
    where: Where = Where()
    evidence: Mapping[str, object] = field(default_factory=dict)
    cures: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleOutcome:
    """What became of one rule. A finding too small to matter leaves the status `clean` and is kept in `findings`."""

    code: str
    name: str
    status: Status
    reason: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HealthNote:
    """Something that qualifies the measurement itself: what was repaired, dropped, or cannot be known."""

    code: str
    message: str
    events: int = 0


@dataclass(frozen=True, kw_only=True)
class Change:
    """How many times faster the treated program is (2.0: half the time), with the confidence interval, on one clock."""

    clock: Clock
    ratio: float
    low: float
    high: float
    pairs: int
    verdict: Literal["faster", "slower", "same", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class StepSpread:
    """Wall time of single un-profiled steps of one side of a trial: the median, and what 5 % and 1 % of them exceed."""

    p50: int
    p95: int
    p99: int
    steps: int
    """How many steps that is from."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One fix, tried. `speedup`, `low` and `high` are on the deciding clock; 1.25 means 1.25 times as fast."""

    fix: str
    verdict: TrialVerdict
    reason: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    outputs_equal: bool | None = None
    error: float | None = None
    """The largest relative L2 difference of any output, in any of the comparisons made."""
    tolerance: float | None = None
    cold_s: float | None = None
    break_even_calls: int | None = None
    clock: Clock | None = None
    changes: tuple[Change, ...] = ()
    before_ns: int | None = None
    after_ns: int | None = None
    """Median un-profiled step time of both sides on the wall clock, in the trial's own turn-taking run."""
    before_spread: StepSpread | None = None
    after_spread: StepSpread | None = None
    before_peak_bytes: int | None = None
    after_peak_bytes: int | None = None
    """Most memory that each side ever held, in processes that compared no answers: on a GPU what torch had allocated
    there, else the process's resident memory. None: not measured."""
    noise: float | None = None
    """What doing nothing changed at most in any set of the same design on this machine, on the deciding clock (0.02:
    2 %); None: not measured. A gain within it is not verified."""
    doubts: tuple[str, ...] = ()
    """What qualifies the numbers, a sentence each: a contended machine, clocks that disagree, a large noise."""
    notes: tuple[str, ...] = ()
    """What the fix itself has to say of what it did, a phrase each: which engine its ops really ran on."""
    cures: tuple[str, ...] = ()
    snippet: str = ""


@dataclass(frozen=True, kw_only=True)
class Capture:
    """How the program was recorded; absent where somebody else recorded the trace."""

    folder: str
    script_exit: int | None
    step_source: str
    roots: Mapping[str, int]
    warmup_steps: int
    recorded_steps: int
    timed_steps: int
    profiler_overhead: float | None
    """Profiled step time over un-profiled step time; None where one of them was not measured."""
    cold_step_ns: int | None = None
    cut: tuple[str, ...] = ()
    """What the budget or a limit cut short, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The one sentence that everything else supports, and the code we exit with."""

    sentence: str
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The one document. Reports, compare, gate and editors work from it alone."""

    subject: str
    command: tuple[str, ...]
    environment: Mapping[str, object]
    health: tuple[HealthNote, ...]
    totals: Totals
    tables: Tables
    outcomes: tuple[RuleOutcome, ...]
    joint_stake: Stake
    trials: tuple[Trial, ...]
    verdict: Verdict
    capture: Capture | None = None
    timeline: Timeline | None = None
    counters: Counts | None = None
    """What its steps did alike; None: too few steps, or recorded by somebody else."""
    schema_version: int = SCHEMA_VERSION
