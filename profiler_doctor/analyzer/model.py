"""The nouns of a diagnosis, exactly as they stand in `diagnosis.json`.

Frozen dataclasses of plain values: whoever holds the document needs neither torch nor pandas nor the trace. The field
names are the document's names (DESIGN.md, "The document"); they may grow, but a name never changes its meaning.
Times are integer nanoseconds, shares run from 0 to 1. This module imports the standard library alone, because the
user's process loads it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
class Step:
    """One step as the trace marks it."""

    name: str
    start_ns: int
    dur_ns: int


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """The time of one step; `low` and `high` are the quartiles. None: not measured. `basis` says how it was."""

    median: int | None = None
    low: int | None = None
    high: int | None = None
    basis: str = "no steps found"


@dataclass(frozen=True, kw_only=True)
class DeviceTotals:
    """One device's time between its first and its last piece of work."""

    span_ns: int
    busy_ns: int
    idle_ns: int
    kernels: int


@dataclass(frozen=True, kw_only=True)
class CopyTotals:
    """All copies of one kind."""

    count: int
    bytes: int
    time_ns: int


@dataclass(frozen=True, kw_only=True)
class SyncTotals:
    """All blocking calls of the runtime and driver."""

    count: int = 0
    time_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The whole trace in numbers; DESIGN.md says what each one counts."""

    events: int = 0
    steps: tuple[Step, ...] = ()
    step_ns: StepTime = StepTime()
    span_ns: int = 0
    busy_ns: int = 0
    busy_kernels_ns: int = 0
    idle_ns: int = 0
    devices: Mapping[str, DeviceTotals] = field(default_factory=dict)
    kernels: int = 0
    kernel_time_ns: int = 0
    launches: int = 0
    graph_launches: int = 0
    copies: Mapping[str, CopyTotals] = field(default_factory=dict)
    syncs: SyncTotals = SyncTotals()
    idle_by_cause: Mapping[str, int] = field(default_factory=dict)
    step_by_part: Mapping[str, int] = field(default_factory=dict)
    """Where the median recorded step goes, exclusive and complete: part → ns. Profiled time: read it as shares."""
    timed_step_ns: tuple[int, ...] = ()
    """Wall time of single un-profiled, warm steps in their order; of many, as many as 400 spread evenly over them."""


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One kernel name in the table of kernels."""

    name: str
    count: int
    time_ns: int


@dataclass(frozen=True, kw_only=True)
class OpRow:
    """One op name in the table of ops; `self_ns` leaves out what its children took, `gpu_ns` is its kernels' time."""

    name: str
    count: int
    time_ns: int
    self_ns: int
    gpu_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class ModuleRow:
    """One module path in the table of modules: how many ops ran in it, and what it took with the modules inside it."""

    name: str
    ops: int
    time_ns: int
    """Host time."""
    gpu_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class SyncRow:
    """Blocking calls of one name under one op."""

    name: str
    op: str
    """The innermost op that was open; "" for none."""
    count: int
    time_ns: int
    longest_ns: int


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """What one device's allocator gave out while it was recorded."""

    device: str
    allocations: int
    allocated_bytes: int
    """Sum of the allocations."""
    peak_bytes: int
    """Most given out at once."""
    peak_op: str
    """The op that reached it; "" unknown."""
    reserved_bytes: int | None = None
    """Most that it held from the driver."""


@dataclass(frozen=True, kw_only=True)
class RooflineRow:
    """One op on one device in one element type: what it computed and moved, and what the device could do at most."""

    op: str
    kind: str
    type: str
    device: int
    """-1: the CPU."""
    calls: int
    time_ns: int
    flops: int
    bytes: int
    bound: str = ""
    """`compute` or `memory`; "" where the device's peaks are not known, then the rest is None too."""
    roof_ns: int | None = None
    """The time that the device needs at least."""
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The top rows of the tables; `profiler-doctor table` prints all."""

    kernels: tuple[KernelRow, ...] = ()
    ops: tuple[OpRow, ...] = ()
    modules: tuple[ModuleRow, ...] = ()
    """Only where the recording has Python stacks."""
    syncs: tuple[SyncRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    """Only where the recording has the allocators' events."""
    roofline: tuple[RooflineRow, ...] = ()
    """Only where the recording has shapes."""
    in_all: Mapping[str, int] = field(default_factory=dict)
    """Table → how many rows it has in all, the ones left out here too."""


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
class Lane:
    """One line of work, drawn: slices in parallel lists."""

    name: str
    kind: str
    """`stream` of a device or `thread` of the host."""
    busy_ns: int
    """Union of all its slices, drawn or not."""
    starts_ns: tuple[int, ...]
    """From the timeline's start."""
    durs_ns: tuple[int, ...]
    names: tuple[int, ...]
    """Places in the timeline's `names`; -1: several short ones, drawn as one."""
    depths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The recorded window to look at: thinned out, so nothing is to be counted in it."""

    start_ns: int
    end_ns: int
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    left_out: int
    """Slices that are not drawn by themselves."""


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
    schema_version: int = SCHEMA_VERSION
