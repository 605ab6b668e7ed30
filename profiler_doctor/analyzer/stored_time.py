"""Step times held against stored ones: two recordings made one after the other, which can only tell large changes."""

from __future__ import annotations

from collections.abc import Mapping

from profiler_doctor.analyzer.baseline import Entry, StoredTime, differing
from profiler_doctor.analyzer.gate import TimeChange
from profiler_doctor.analyzer.measuring import Measured, machine_ns

PROCESSES = 3
"""Fresh processes on each side."""
TIMED_STEPS = 40
LEAST_CHANGE = 0.25
"""Runs of the same program on different days differ by 10 to 20 %, however many steps are timed: less than this is for
`--base`, which lets both take turns, to decide."""
SAME_MACHINE = 0.10
"""A fixed piece of work must take as long as it did, within 10 %: else the machine is busy, or another one."""
INSTEAD = "--base REV lets both take turns here, --no-time leaves time out"
FLOOR_NS = 20_000
"""Below 20 µs a step nothing is called slower: the clocks and the hooks around a step cost some of that."""


def stored(side: Measured, before_ns: int) -> StoredTime | None:
    """For the baseline. `before_ns`: what the fixed piece of work took before the runs."""
    if not side.times_ns:
        return None
    return StoredTime(step_ns=side.times_ns, cpu_ns=side.cpu_ns, machine_ns=max(before_ns, machine_ns()))


def compared(entry: Entry, side: Measured, tolerance: float, before_ns: int) -> TimeChange:
    """The times of both sides, where they mean anything. `before_ns` as in `stored`."""
    why = hindrance(entry, side.circumstances, max(before_ns, machine_ns())) or _untimed(side)
    if why or entry.time is None:
        return TimeChange(verdict="not comparable", reason=f"time is not comparable: {why}", tolerance=tolerance)
    clock = "cpu" if side.recording.facts.device == "cpu" and side.recording.facts.threads == 1 else "wall"
    before, after = (entry.time.cpu_ns, side.cpu_ns) if clock == "cpu" else (entry.time.step_ns, side.times_ns)
    return judged(sorted(before), sorted(after), tolerance, clock)


def hindrance(entry: Entry, circumstances: Mapping[str, object], work_ns: int) -> str:
    """Why the times are not comparable; empty: they are. `work_ns`: what the fixed piece of work takes now."""
    if entry.time is None:
        return "the baseline holds no times"
    others = differing(entry, circumstances, time=True)
    if others:
        return f"the {others[0]}; {INSTEAD}"
    ratio = work_ns / entry.time.machine_ns
    if abs(ratio - 1) > SAME_MACHINE:
        return f"the machine takes {ratio:.2f} times as long for the same work as when the baseline was made; {INSTEAD}"
    return ""


def _untimed(side: Measured) -> str:
    return "" if side.times_ns else "no steps were timed"


def judged(before: list[int], after: list[int], tolerance: float, clock: str) -> TimeChange:
    """What the medians of both sides' processes, sorted, amount to."""
    ratio, low, high = after[len(after) // 2] / before[len(before) // 2], after[0] / before[-1], after[-1] / before[0]
    found = TimeChange(
        verdict="pass",
        reason=f"a step takes {ratio:.2f} times as long as in the baseline, by stored times ({low:.2f} to {high:.2f})",
        ratio=ratio,
        low=low,
        high=high,
        tolerance=tolerance,
        clock=clock,
        before_ns=before[len(before) // 2],
        after_ns=after[len(after) // 2],
        pairs=min(len(before), len(after)),
    )
    apart = low > 1 + tolerance and after[0] - before[-1] > FLOOR_NS
    if apart and low > 1 + LEAST_CHANGE:
        return _with(found, "regression", found.reason)
    if apart:
        return _with(found, "inconclusive", f"{found.reason}; --base REV lets both take turns and decides")
    return found


def _with(found: TimeChange, verdict: str, reason: str) -> TimeChange:
    return TimeChange(**{**vars(found), "verdict": verdict, "reason": reason})
