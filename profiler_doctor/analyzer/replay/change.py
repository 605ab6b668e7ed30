"""A score as it would be with an edit: work shortened or gone, host time gone, waits gone, gaps closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.replay.edits import Removed, removed
from profiler_doctor.analyzer.replay.score import Score
from profiler_doctor.analyzer.replay.waits import CALL_NS
from profiler_doctor.analyzer.trace import GPU_WORK, Bools, Ints, Trace

GRAPH_GAP_NS = 1_000
"""Between two kernels of one graph (RULES.md, LCH001)."""


def edited(trace: Trace, score: Score, edit: Edit) -> Score:
    """The score with `edit` made.

    A launch whose work is all dropped goes, and so does the dispatch of an op all of whose work is dropped; the Python
    before it stays. Work that is launched inside a dropped op is dropped.
    """
    works, host = score.works, _host_part(trace, edit.keep)
    keep = np.array([edit.keep.get(row, 1.0) for row in works.row.tolist()])
    dropped = (keep == 0) | _launched_in(trace, score, [row for row, share in host.items() if share == 0])
    host |= dict.fromkeys(_wholly(works.op, dropped), 0.0)
    host |= dict.fromkeys(score.calls.row[_wholly(works.call, dropped)].tolist(), 0.0)
    think, own = _without(trace, score, host)
    freed = np.flatnonzero(np.isin(score.calls.row, edit.free))
    own[freed] = np.minimum(own[freed], CALL_NS)
    shorter = replace(works, dur_ns=(works.dur_ns * keep).astype(np.int64))
    changed = replace(score, works=shorter, think_ns=think, own_ns=own, dropped=dropped)
    changed = replace(changed, freed=frozenset(freed.tolist()) | _gone(trace, score, host))
    return _as_one_graph(trace, changed) if edit.no_launch_gaps else changed


def by_thread(trace: Trace, host: Mapping[int, float]) -> dict[int, Removed]:
    """Host time that goes when each row keeps its share, by thread code."""
    rows = np.fromiter(host, dtype=np.int64, count=len(host))
    keep = np.fromiter(host.values(), dtype=np.float64, count=len(host))
    threads = trace.events.thread[rows]
    return {int(own): removed(trace, rows[threads == own], keep[threads == own]) for own in np.unique(threads)}


def _host_part(trace: Trace, keep: Mapping[int, float]) -> dict[int, float]:
    return {row: share for row, share in keep.items() if trace.events.category_of(row) not in GPU_WORK}


def _without(trace: Trace, score: Score, host: Mapping[int, float]) -> tuple[Ints, Ints]:
    """Thinking time and own time of every call, without the host time that goes."""
    calls, offset = score.calls, score.window.start_ns
    think, own = score.think_ns.copy(), score.own_ns.copy()
    leader = np.where(calls.after >= 0, calls.thread[calls.after], calls.thread)
    for thread, gone in by_thread(trace, host).items():
        mine = calls.thread == thread
        thinking = gone.between(calls.free_from_ns + offset, calls.start_ns + offset)
        think -= np.where(mine | (leader == thread), thinking, 0)
        own -= np.where(mine, gone.between(calls.start_ns + offset, calls.end_ns + offset), 0)
    return np.maximum(think, 0), np.maximum(own, 0)


def _launched_in(trace: Trace, score: Score, rows: list[int]) -> Bools:
    """Work whose launch starts inside one of the rows, on its thread."""
    works, calls = score.works, score.calls
    inside = _calls_in(trace, score, dict.fromkeys(rows, 0.0))
    return (works.call >= 0) & np.append(inside, False)[works.call] if len(calls.row) else inside


def _calls_in(trace: Trace, score: Score, host: Mapping[int, float]) -> Bools:
    """Calls that lie inside host time that goes altogether."""
    calls, offset = score.calls, score.window.start_ns
    inside = np.zeros(len(calls.row), dtype=np.bool_)
    for thread, gone in by_thread(trace, host).items():
        start, end = calls.start_ns + offset, calls.end_ns + offset
        whole = gone.between(start, end) >= calls.dur_ns
        inside |= (calls.thread == thread) & whole & (gone.between(start, start + 1) > 0)
    return inside


def _gone(trace: Trace, score: Score, host: Mapping[int, float]) -> frozenset[int]:
    wholly = {row: share for row, share in host.items() if share == 0}
    return frozenset(np.flatnonzero(_calls_in(trace, score, wholly)).tolist())


def _wholly(groups: Ints, chosen: Bools) -> list[int]:
    """Groups (0 and up) all of whose members are chosen."""
    return [int(group) for group in np.setdiff1d(groups[chosen & (groups >= 0)], groups[~chosen])]


def _as_one_graph(trace: Trace, score: Score) -> Score:
    """No host time between launches, except for what the input pipeline takes; kernels follow each other closely."""
    calls, works, offset = score.calls, score.works, score.window.start_ns
    loader = trace.rows_named(lambda name: "DataLoader" in name and "__next__" in name, ("user_annotation", "cpu_op"))
    think = np.zeros_like(score.think_ns)
    for thread, waiting in by_thread(trace, dict.fromkeys(loader.tolist(), 0.0)).items():
        mine = calls.thread == thread
        think += np.where(mine, waiting.between(calls.free_from_ns + offset, calls.start_ns + offset), 0)
    launching = np.isin(np.arange(len(calls.row)), works.call) & ~calls.waits
    quick = replace(
        works,
        gap_ns=np.minimum(works.gap_ns, GRAPH_GAP_NS),
        latency_ns=np.minimum(works.latency_ns, 0),
        lag_ns=np.minimum(works.lag_ns, GRAPH_GAP_NS),
    )
    think = np.minimum(think, score.think_ns)
    return replace(score, works=quick, think_ns=think, own_ns=np.where(launching, 0, score.own_ns))
