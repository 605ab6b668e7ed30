"""A score as it would be with an edit: work shortened or gone, host time gone, waits gone, gaps closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.idle import LOADER
from profiler_doctor.analyzer.measures.links import is_gpu_work
from profiler_doctor.analyzer.measures.names import distinct
from profiler_doctor.analyzer.replay.device import Works
from profiler_doctor.analyzer.replay.edits import Removed, Shares, removed
from profiler_doctor.analyzer.replay.score import Score
from profiler_doctor.analyzer.replay.waits import CALL_NS
from profiler_doctor.analyzer.trace import Bools, Codes, Ints, Trace

GRAPH_GAP_NS = 1_000
"""Between two kernels of one graph (RULES.md, LCH001)."""


@dataclass(frozen=True, eq=False)
class _Host:
    """Pieces of host time, and the share of each that stays; times from the window's start."""

    thread: Codes
    start_ns: Ints
    end_ns: Ints
    keep: Shares

    @classmethod
    def of_rows(cls, trace: Trace, score: Score, rows: Ints, shares: Shares) -> _Host:
        events, offset = trace.events, score.window.start_ns
        return cls(events.thread[rows], events.start_ns[rows] - offset, events.ends_at(rows) - offset, shares)

    @classmethod
    def gone_with(cls, trace: Trace, score: Score, rows: Ints) -> _Host:
        """All of the host time of these rows."""
        return cls.of_rows(trace, score, rows, np.zeros(len(rows)))

    def __add__(self, other: _Host) -> _Host:
        return _Host(
            np.concatenate((self.thread, other.thread)),
            np.concatenate((self.start_ns, other.start_ns)),
            np.concatenate((self.end_ns, other.end_ns)),
            np.concatenate((self.keep, other.keep)),
        )

    @property
    def gone(self) -> _Host:
        """The pieces of which nothing stays."""
        none = self.keep == 0
        return _Host(self.thread[none], self.start_ns[none], self.end_ns[none], self.keep[none])

    def by_thread(self) -> dict[int, Removed]:
        """The host time that goes, by thread code."""
        groups = ((own, self.thread == own) for own in distinct(self.thread))
        return {own: removed(self.start_ns[mine], self.end_ns[mine], self.keep[mine]) for own, mine in groups}


def edited(trace: Trace, score: Score, edit: Edit) -> Score:
    """The score with `edit` made.

    A launch whose work is all dropped goes, with the time inside its op that led up to it, and so does the dispatch of
    an op all of whose work is dropped; the Python before it stays. Work launched inside a dropped op is dropped. The
    launches of joined work go in the same way, and the work stays.
    """
    works = score.works
    kept, shares = _pairs(edit.keep)
    on_host = ~is_gpu_work(trace, kept)
    host = _Host.of_rows(trace, score, kept[on_host], shares[on_host])
    keep = _looked_up(kept, shares, works.row)
    dropped = (keep == 0) | np.append(_calls_in(score, host.gone), False)[works.call]
    joined = _among(works.row, edit.joined)
    host = host + _Host.gone_with(trace, score, _wholly(works.op, dropped | joined))
    host = host + _launches(score, _wholly(works.call, dropped | joined))
    think, own = _without(score, host)
    freed = _among(score.calls.row, edit.free)
    own = np.where(freed, np.minimum(own, CALL_NS), own)
    shorter = replace(works, dur_ns=(works.dur_ns * keep).astype(np.int64), latency_ns=_latency(score, own, freed))
    shorter = _close(shorter, joined)
    aside = score.aside | _among(works.row, edit.aside)
    changed = replace(score, works=shorter, think_ns=think, own_ns=own, dropped=dropped, aside=aside)
    changed = replace(changed, freed=freed | _calls_in(score, host.gone))
    return _as_one_graph(trace, changed) if edit.no_launch_gaps else changed


def _pairs(keep: Mapping[int, float]) -> tuple[Ints, Shares]:
    """Rows in order, and the share of each that stays."""
    rows = np.fromiter(keep, dtype=np.int64, count=len(keep))
    order = np.argsort(rows, kind="stable")
    return rows[order], np.fromiter(keep.values(), dtype=np.float64, count=len(keep))[order]


def _looked_up(rows: Ints, shares: Shares, wanted: Codes) -> Shares:
    """The share of each wanted row, 1 where it is not among `rows`."""
    found, there = np.ones(len(wanted)), np.flatnonzero(_among(wanted, rows))
    found[there] = shares[np.searchsorted(rows, wanted[there])]
    return found


def _among(rows: Codes, chosen: Sequence[int] | Ints) -> Bools:
    """Which of the rows are chosen."""
    if not len(chosen):
        return np.zeros(len(rows), np.bool_)
    return np.isin(rows, np.asarray(chosen, np.int64), kind="table")


def _latency(score: Score, own_ns: Ints, freed: Bools) -> Ints:
    """The latency of all work: after a launch that no longer waits it counts from where the launch now ends."""
    if not freed.any():
        return score.works.latency_ns
    shorter_ns = np.where(freed & ~score.calls.waits, score.own_ns - own_ns, 0)
    latency: Ints = score.works.latency_ns + np.append(shorter_ns, 0)[score.works.call]
    return latency


def _close(works: Works, chosen: Bools) -> Works:
    """Work that follows what is before it as closely as in a graph."""
    if not chosen.any():
        return works
    return replace(
        works,
        gap_ns=np.where(chosen, np.minimum(works.gap_ns, GRAPH_GAP_NS), works.gap_ns),
        latency_ns=np.where(chosen, np.minimum(works.latency_ns, 0), works.latency_ns),
        lag_ns=np.where(chosen, np.minimum(works.lag_ns, GRAPH_GAP_NS), works.lag_ns),
    )


def _launches(score: Score, at: Ints) -> _Host:
    """The calls `at` these places, each from the end of its op's previous launch on, where there is one."""
    calls, op = score.calls, np.full(len(score.calls.row) + 1, -1, dtype=np.int64)
    op[score.works.call] = score.works.op
    op[-1] = -1  # of work whose launch is not in the window
    earlier = calls.after[at]
    same = (earlier >= 0) & (op[at] >= 0) & (op[earlier] == op[at]) & (calls.thread[earlier] == calls.thread[at])
    start = np.where(same, calls.end_ns[earlier], calls.start_ns[at])
    return _Host(calls.thread[at], start, calls.end_ns[at], np.zeros(len(at)))


def _without(score: Score, host: _Host) -> tuple[Ints, Ints]:
    """Thinking time and own time of every call, without the host time that goes."""
    calls, free_from = score.calls, score.calls.free_from_ns
    think, own = score.think_ns.copy(), score.own_ns.copy()
    leader = np.where(calls.after >= 0, calls.thread[calls.after], calls.thread)
    for thread, gone in host.by_thread().items():
        mine = calls.thread == thread
        led = np.flatnonzero(mine | (leader == thread))
        until_start = gone.until(calls.start_ns[led])
        think[led] -= np.maximum(until_start - gone.until(free_from[led]), 0)
        own[mine] -= np.maximum(gone.until(calls.end_ns[mine]) - until_start[mine[led]], 0)
    return np.maximum(think, 0), np.maximum(own, 0)


def _calls_in(score: Score, host: _Host) -> Bools:
    """Calls that lie inside host time that goes altogether."""
    calls, inside = score.calls, np.zeros(len(score.calls.row), dtype=np.bool_)
    for thread, gone in host.by_thread().items():
        mine = np.flatnonzero(calls.thread == thread)
        start, end = calls.start_ns[mine], np.maximum(calls.end_ns[mine], calls.start_ns[mine] + 1)
        inside[mine] = gone.between(start, end) >= end - start
    return inside


def _wholly(groups: Codes, chosen: Bools) -> Ints:
    """Groups (0 and up) all of whose members are chosen."""
    if not chosen.any():
        return np.empty(0, np.int64)
    whole = np.zeros(int(groups.max(initial=-1)) + 2, dtype=np.bool_)  # the last one is for those of no group
    whole[groups[chosen]] = True
    whole[groups[~chosen]] = False
    return np.flatnonzero(whole[:-1])


def _as_one_graph(trace: Trace, score: Score) -> Score:
    """No host time between launches, except for what the input pipeline takes; kernels follow each other closely."""
    calls, works, free_from = score.calls, score.works, score.calls.free_from_ns
    loader = trace.rows_named(LOADER.search, ("user_annotation", "cpu_op"))
    think = np.zeros_like(score.think_ns)
    for thread, waiting in _Host.gone_with(trace, score, loader).by_thread().items():
        mine = calls.thread == thread
        think[mine] = waiting.between(free_from[mine], calls.start_ns[mine])
    launching = np.zeros(len(calls.row) + 1, dtype=np.bool_)
    launching[works.call] = True
    quick = _close(works, np.ones(len(works.row), dtype=np.bool_))
    own = np.where(launching[:-1] & ~calls.waits, 0, score.own_ns)
    return replace(score, works=quick, think_ns=np.minimum(think, score.think_ns), own_ns=own)
