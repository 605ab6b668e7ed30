"""The whole recording in numbers: its steps, its devices, its copies, what it waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
