"""Sets of time intervals: their union, what two share, and what one has that the other has not; half-open, in ns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from profiler_doctor.analyzer.trace import Ints

AT_ONCE = 1 << 15
"""Intervals that are merged at a time: their copies stay small, and in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Disjoint intervals in time order; `owner` says which caller's row each one is a part of."""

    starts: Ints
    ends: Ints
    owner: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        """The time that they cover."""
        return int((self.ends - self.starts).sum())


def union(starts: Ints, ends: Ints) -> Intervals:
    """The intervals merged where they touch or overlap; owners count them. Empty ones (end ≤ start) are left out.

    Many are merged part by part first: what lies inside each other, as ops do, is gone before the whole is sorted.
    """
    if len(starts) <= AT_ONCE:
        return _merged(starts, ends)
    parts = [slice(first, first + AT_ONCE) for first in range(0, len(starts), AT_ONCE)]
    merged = [_merged(starts[part], ends[part]) for part in parts]
    merged = [part for part in merged if len(part)]
    begin = np.concatenate([starts[:0], *(part.starts for part in merged)])
    until = np.concatenate([ends[:0], *(part.ends for part in merged)])
    if all(before.ends[-1] < after.starts[0] for before, after in pairwise(merged)):
        return Intervals(begin, until, np.arange(len(begin)))
    return _merged(begin, until)


def _merged(starts: Ints, ends: Ints) -> Intervals:
    kept = ends > starts
    if not kept.all():
        starts, ends = starts[kept], ends[kept]
    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    if not len(starts):
        return Intervals(starts, reach, starts)
    new = np.flatnonzero(np.concatenate(([True], starts[1:] > reach[:-1])))
    last = np.concatenate((new[1:] - 1, [len(starts) - 1]))
    return Intervals(starts[new], reach[last], np.arange(len(new)))


def union_ns(starts: Ints, ends: Ints) -> int:
    """The time covered by at least one of the intervals."""
    return union(starts, ends).total_ns


def reached(values: Ints, times: Ints) -> Ints:
    """How many of the `values`, which ascend, are not after each of the times.

    Whichever are fewer are looked for among the others, as far as the times ascend, too.
    """
    if len(values) >= len(times) or np.any(times[1:] < times[:-1]):
        return np.searchsorted(values, times, side="right")
    first = np.searchsorted(times, values, side="left")
    return np.cumsum(np.bincount(first, minlength=len(times) + 1)[:-1])


def shared(parts: Intervals, cover: Intervals) -> Intervals:
    """What of `parts` lies inside `cover`, split where the cover has holes; owners are those of `parts`."""
    if not len(parts) or not len(cover):
        return Intervals(parts.starts[:0], parts.ends[:0], parts.owner[:0])
    first, after = reached(cover.ends, parts.starts), reached(cover.starts, parts.ends - 1)
    count = np.maximum(after - first, 0)
    mine = np.repeat(np.arange(len(parts)), count)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    starts = np.maximum(parts.starts[mine], cover.starts[theirs])
    ends = np.minimum(parts.ends[mine], cover.ends[theirs])
    return _nonempty(Intervals(starts, ends, parts.owner[mine]))


def without(parts: Intervals, cover: Intervals) -> Intervals:
    """What of `parts` lies outside `cover`; owners are those of `parts`."""
    if not len(parts) or not len(cover):
        return _nonempty(parts)
    lowest, highest = parts.starts.min(), parts.ends.max()
    starts = np.concatenate(([min(lowest, cover.starts[0])], cover.ends))
    ends = np.concatenate((cover.starts, [max(highest, cover.ends[-1])]))
    return shared(parts, Intervals(starts, ends, np.arange(len(starts))))


def gaps(starts: Ints, ends: Ints) -> Intervals:
    """The holes between the first start and the last end, numbered; intervals without length split a hole."""
    if not len(starts):
        return Intervals(starts, ends, starts)
    merged = union(starts, ends)
    begin = np.concatenate(([starts.min()], merged.ends))
    until = np.concatenate((merged.starts, [ends.max()]))
    found = _nonempty(Intervals(begin, until, np.arange(len(begin))))
    moments = np.unique(starts[ends <= starts])
    if len(moments):
        between = Intervals(np.append(begin[0], moments), np.append(moments, until[-1]), np.arange(len(moments) + 1))
        found = shared(found, between)
    return Intervals(found.starts, found.ends, np.arange(len(found)))


def covered_ns(parts: Intervals, cover: Intervals, owners: int) -> Ints:
    """For each owner 0 … owners − 1, how much of its parts lies inside `cover`."""
    inside = shared(parts, cover)
    return np.bincount(inside.owner, weights=inside.ends - inside.starts, minlength=owners).astype(np.int64)


def _nonempty(parts: Intervals) -> Intervals:
    kept = parts.ends > parts.starts
    return Intervals(parts.starts[kept], parts.ends[kept], parts.owner[kept])
