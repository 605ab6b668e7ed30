"""The recorded window as lanes to draw: host threads and device streams, thinned out until a page can hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.window import used_steps, window
from profiler_doctor.analyzer.timeline import Lane, Timeline
from profiler_doctor.analyzer.trace import Ints, Trace, measure

MOST_SLICES = 2_000
"""In all lanes together: some 150 kB of the document, and what a browser draws in half a second."""
MOST_LANES = 12
DEEPEST = 4
"""Levels of ops that a thread shows; deeper ones are views and allocations."""
STEPS = 3
"""The last ones of the window: one step is like another, and of few steps more can be seen."""


@dataclass(frozen=True, eq=False)
class _Slices:
    """What one lane could show, in order of start; `name` are codes of the trace's name table."""

    title: str
    kind: str
    start_ns: Ints
    end_ns: Ints
    name: Ints
    depth: Ints

    @property
    def weight(self) -> int:
        """Time of its outermost slices: the lanes with most of it are shown."""
        outer = self.depth == 0
        return int((self.end_ns[outer] - self.start_ns[outer]).sum())

    def part(self, chosen: Ints) -> _Slices:
        """The chosen ones."""
        parts = (column[chosen] for column in (self.start_ns, self.end_ns, self.name, self.depth))
        return _Slices(self.title, self.kind, *parts)


@measure
def timeline(trace: Trace) -> Timeline | None:
    """The last steps of the window, or all of it, streams first; None where nothing in it has a length.

    Of more than MOST_SLICES the longest are kept as they are. The others of a lane that lie side by side become one
    slice without a name, and `left_out` says how many are gone.
    """
    start_ns, end_ns = _span(trace)
    if end_ns <= start_ns:
        return None
    found = [_within(lane, start_ns, end_ns) for lane in chain(_streams(trace), _threads(trace, start_ns, end_ns))]
    found = sorted((lane for lane in found if len(lane.start_ns)), key=lambda lane: -lane.weight)[:MOST_LANES]
    shown = sorted(found, key=lambda lane: (lane.kind != "stream", -lane.weight))
    if not shown:
        return None
    room = MOST_SLICES // len(shown)
    names: dict[int, int] = {}
    lanes = tuple(_lane(lane, room, start_ns, names) for lane in shown)
    kept = sum(len(lane.starts_ns) for lane in lanes)
    return Timeline(
        start_ns=start_ns,
        end_ns=end_ns,
        names=tuple(trace.events.names[code] for code in names),
        lanes=lanes,
        left_out=sum(len(lane.start_ns) for lane in shown) - kept,
    )


def _span(trace: Trace) -> tuple[int, int]:
    """The window, or the last of its steps; (0, 0) where there is none."""
    span, used = window(trace), used_steps(trace)
    if span is None:
        return 0, 0
    return (int(used["start_ns"].iloc[-STEPS:].min()) if len(used) else span.start_ns), span.end_ns


def _streams(trace: Trace) -> Iterator[_Slices]:
    for (device, stream), work in gpu_work(trace).groupby(["device", "stream"], sort=False):
        rows = work["row"].to_numpy()
        start, end = work["start_ns"].to_numpy(), work["end_ns"].to_numpy()
        title = f"GPU {device} stream {stream}"
        yield _Slices(
            title, "stream", start, end, trace.events.name[rows].astype(np.int64), np.zeros(len(rows), np.int64)
        )


def _threads(trace: Trace, start_ns: int, end_ns: int) -> Iterator[_Slices]:
    table = ops(trace)
    shown = (table["depth"] < DEEPEST) & (table["start_ns"] < end_ns) & (table["end_ns"] > start_ns)
    table = table.loc[shown, ["row", "depth", "start_ns", "end_ns", "thread"]]
    for code, own in table.groupby("thread", sort=False):
        process, thread = trace.events.threads[int(str(code))]
        rows, depth = own["row"].to_numpy(), own["depth"].to_numpy().astype(np.int64)
        start, end = own["start_ns"].to_numpy(), own["end_ns"].to_numpy()
        title = f"thread {thread} of process {process}"
        yield _Slices(title, "thread", start, end, trace.events.name[rows].astype(np.int64), depth)


def _within(lane: _Slices, start_ns: int, end_ns: int) -> _Slices:
    """What of the lane lies in the window, cut to it."""
    inside = lane.part(np.flatnonzero((lane.end_ns > start_ns) & (lane.start_ns < end_ns)))
    cut = np.maximum(inside.start_ns, start_ns), np.minimum(inside.end_ns, end_ns)
    return _Slices(lane.title, lane.kind, *cut, inside.name, inside.depth)


def _lane(lane: _Slices, room: int, offset_ns: int, names: dict[int, int]) -> Lane:
    """Three quarters of the lane's room are for its longest slices, the rest for runs of the others."""
    long = np.ones(len(lane.start_ns), np.bool_)
    if len(long) > room:
        length = lane.end_ns - lane.start_ns
        long = length > np.partition(length, -room * 3 // 4)[-room * 3 // 4]
    kept, others = lane.part(np.flatnonzero(long)), lane.part(np.flatnonzero(~long & (lane.depth == 0)))
    start, end = _runs(others, room // 4)
    codes = [names.setdefault(code, len(names)) for code in kept.name.tolist()]
    return Lane(
        name=lane.title,
        kind=lane.kind,
        busy_ns=union_ns(lane.start_ns, lane.end_ns),
        starts_ns=tuple((np.concatenate((kept.start_ns, start)) - offset_ns).tolist()),
        durs_ns=tuple(np.concatenate((kept.end_ns - kept.start_ns, end - start)).tolist()),
        names=(*codes, *(-1,) * len(start)),
        depths=(*kept.depth.tolist(), *(0,) * len(start)),
    )


def _runs(lane: _Slices, most: int) -> tuple[Ints, Ints]:
    """Starts and ends of runs of slices that lie close together, as close as makes `most` runs of them."""
    order = np.argsort(lane.start_ns, kind="stable")
    start, end = lane.start_ns[order], np.maximum.accumulate(lane.end_ns[order]) if len(order) else lane.end_ns
    apart_ns = 1
    while len(start) > most:
        breaks = np.flatnonzero(start[1:] - end[:-1] >= apart_ns)
        start, end = start[np.append(0, breaks + 1)], end[np.append(breaks, len(end) - 1)]
        apart_ns *= 2
    return start, end
