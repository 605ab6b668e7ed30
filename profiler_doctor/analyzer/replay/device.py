"""The GPU's side of a window: each piece of work with its stream, its launch, and what its start waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.measures.window import Window
from profiler_doctor.analyzer.replay.host import Calls
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace

USUAL_LATENCY_NS = 3_000
USUAL_GAP_NS = 1_500
"""From the end of a launch to its kernel, and between two queued kernels, for windows that show neither: the medians
of public A100 and H100 traces are 2 to 4 µs and 1 to 2 µs."""
PROMPT_NS = 30_000
"""Starts later after their launch than this waited for something else; ROCm's usual latency is 15 to 20 µs."""
CLOSE_NS = 5_000
"""A start this soon after the end of work on another stream is taken to have waited for it."""
SLACK_NS = 100_000
"""A start later than this after all it is known to wait for is not explained, and is not played again.

In public traces 99 % of the starts are under 25 µs late; MSR003 speaks from 300 µs on."""
NEVER = -(1 << 60)


@dataclass(frozen=True, eq=False)
class Works:
    """GPU work in the order it is played, times from the window's start.

    `call`: place of the launching call (-1: launched before the window or not in the trace). `turn`: place of the call
    after which it is played (-1: before all, at its recorded time). A start follows the end of the stream's earlier
    work by `gap_ns`, the launch by `latency_ns`, and the end of the work at place `waits_for` (-1: none) by `lag_ns`.
    """

    row: Codes
    op: Codes
    call: Codes
    turn: Codes
    stream: Codes
    device: Codes
    start_ns: Ints
    dur_ns: Ints
    gap_ns: Ints
    latency_ns: Ints
    waits_for: Codes
    lag_ns: Ints
    unexplained: int
    """How many starts nothing recorded explains."""

    @property
    def end_ns(self) -> Ints:
        """Recorded ends."""
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Recorded starts, and the two things each one surely waits for: its stream and its launch."""

    start_ns: Ints
    before_ns: Ints
    launched_ns: Ints

    @property
    def by_launch(self) -> Bools:
        """Whether the launch came last."""
        return self.launched_ns >= self.before_ns

    def least(self) -> tuple[Ints, Ints]:
        """The gap and the latency that a start needs at least: the usual one, or its own where that is shorter."""
        gap, latency = self.start_ns - self.before_ns, self.start_ns - self.launched_ns
        usual_latency = _median(latency[self.by_launch & (latency < PROMPT_NS)], USUAL_LATENCY_NS)
        usual_gap = _median(gap[~self.by_launch & (gap < CLOSE_NS)], USUAL_GAP_NS)
        return np.minimum(gap, usual_gap), np.minimum(latency, usual_latency)


def works_in(trace: Trace, window: Window, calls: Calls) -> Works:
    """The work that `window` launches, and what still runs in it without a launch of its own."""
    columns = _in_playing_order(_in_window(trace, window, calls))
    start, dur, call = columns["start_ns"], columns["dur_ns"], columns["call"]
    ready = np.append(np.where(calls.waits, calls.start_ns, calls.end_ns), NEVER)
    bounds = _Bounds(start, _end_before(columns["stream"], start + dur), ready[call])
    gap, latency = bounds.least()
    late = start - np.maximum(bounds.before_ns + gap, bounds.launched_ns + latency)
    told = np.append(calls.joins, False)[call] & _first_of(call)
    other, lag = _other_stream(start, dur, columns["stream"], np.flatnonzero(told | (late > CLOSE_NS)))
    waited = (other >= 0) & (late > CLOSE_NS) & (lag <= CLOSE_NS)
    unexplained = (late > SLACK_NS) & ~waited
    other = np.where(waited | told, other, -1)
    own = ~waited & ~unexplained
    return Works(
        **{name: columns[name].astype(np.int32) for name in ("row", "op", "call", "turn", "stream", "device")},
        start_ns=start,
        dur_ns=dur,
        gap_ns=np.where(own & ~bounds.by_launch, start - bounds.before_ns, gap),
        latency_ns=np.where(own & bounds.by_launch, start - bounds.launched_ns, latency),
        waits_for=other.astype(np.int32),
        lag_ns=np.where(waited, lag, np.minimum(lag, USUAL_GAP_NS)),
        unexplained=int((unexplained & (columns["turn"] >= 0)).sum()),
    )


def _in_window(trace: Trace, window: Window, calls: Calls) -> dict[str, Ints]:
    """The columns of the work, in order of its start; streams and devices are numbered as they come."""
    work = gpu_work(trace)
    launched = work["launch_start_ns"].where(work["launch"] >= 0, NEVER).to_numpy()
    start, end = work["start_ns"].to_numpy(), work["end_ns"].to_numpy()
    inside = (launched >= window.start_ns) & (launched < window.end_ns)
    earlier = (launched < window.start_ns) & (end > window.start_ns) & (start < window.end_ns)
    chosen = np.flatnonzero(inside | earlier)
    columns = {name: work[name].to_numpy()[chosen].astype(np.int64) for name in ("row", "op", "dur_ns", "device")}
    stream = columns["device"] << 32 | work["stream"].to_numpy(np.int64)[chosen] & 0xFFFFFFFF
    call = _calls_of(trace, work["launch"].to_numpy(np.int64)[chosen], window, calls)
    return {
        **columns,
        "device": pd.factorize(columns["device"])[0].astype(np.int64),
        "stream": pd.factorize(stream)[0].astype(np.int64),
        "call": np.where(inside[chosen], call, -1),
        "start_ns": start[chosen] - window.start_ns,
    }


def _calls_of(trace: Trace, launches: Ints, window: Window, calls: Calls) -> Ints:
    """Place of the outermost call that each launch row is, or lies in."""
    thread, start = trace.events.thread[launches], trace.events.start_ns[launches] - window.start_ns
    place = np.full(len(launches), -1, dtype=np.int64)
    for own in distinct(calls.thread):
        there, mine = np.flatnonzero(calls.thread == own), thread == own
        found = np.searchsorted(calls.start_ns[there], start[mine], side="right") - 1
        place[mine] = np.where(found >= 0, there[np.maximum(found, 0)], -1)
    return place


def _in_playing_order(columns: dict[str, Ints]) -> dict[str, Ints]:
    """After its launch, and after what its stream did before it; given in order of the start."""
    turn = _latest(columns["stream"], columns["call"])
    order = np.argsort(turn, kind="stable")
    return {name: column[order] for name, column in {**columns, "turn": turn}.items()}


def _latest(stream: Ints, values: Ints) -> Ints:
    """The largest value so far on the same stream, its own among them."""
    found = np.empty_like(values)
    for own in distinct(stream):
        mine = np.flatnonzero(stream == own)
        found[mine] = np.maximum.accumulate(values[mine])
    return found


def _end_before(stream: Ints, end: Ints) -> Ints:
    """The latest end of earlier work on the same stream, NEVER for the first."""
    found = np.full(len(end), NEVER)
    for own in distinct(stream):
        mine = np.flatnonzero(stream == own)
        found[mine[1:]] = np.maximum.accumulate(end[mine])[:-1]
    return found


def _first_of(call: Ints) -> Bools:
    _, first = np.unique(call, return_index=True)
    chosen = np.zeros(len(call), dtype=np.bool_)
    chosen[first] = True
    return chosen


def _other_stream(start: Ints, dur: Ints, stream: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """For each wanted place the work of another stream, played before it, that ended last before its start; the lag."""
    end = start + dur
    place, lag = np.full(len(start), -1, dtype=np.int64), np.zeros(len(start), dtype=np.int64)
    best = np.full(len(start), NEVER, dtype=np.int64)
    for other in distinct(stream):
        there = np.flatnonzero(stream == other)
        there = there[np.argsort(end[there], kind="stable")]
        here = wanted[stream[wanted] != other]
        found = np.searchsorted(end[there], start[here], side="right") - 1
        candidate = there[np.maximum(found, 0)]
        better = (found >= 0) & (candidate < here) & (end[candidate] > best[here])
        place[here[better]], best[here[better]] = candidate[better], end[candidate[better]]
    known = place >= 0
    lag[known] = start[known] - best[known]
    return place, lag


def _median(values: Ints, otherwise: int) -> int:
    return int(np.median(values)) if len(values) else otherwise
