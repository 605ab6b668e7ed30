"""What several findings would change, as one change: time that two of them claim is counted once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.intervals import reached
from profiler_doctor.analyzer.trace import Bools, Ints

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Removed:
    """Host time that an edit takes away: disjoint pieces in time order, each with the share of it that goes."""

    start_ns: Ints
    end_ns: Ints
    share: Shares

    def until(self, times_ns: Ints) -> Ints:
        """Nanoseconds taken away before each of the times."""
        if not len(self.start_ns):
            return np.zeros(len(times_ns), np.int64)
        before = np.concatenate(([0.0], np.cumsum((self.end_ns - self.start_ns) * self.share)))
        piece = reached(self.start_ns, times_ns)
        last = piece - 1  # before the first piece that is the last one, of which nothing counts
        beyond = np.maximum(self.end_ns[last] - times_ns, 0) * self.share[last]
        gone: Ints = np.where(piece > 0, before[piece] - beyond, 0.0).astype(np.int64)
        return gone

    def between(self, starts_ns: Ints, ends_ns: Ints) -> Ints:
        """Nanoseconds taken away inside each of the intervals."""
        gone: Ints = np.maximum(self.until(ends_ns) - self.until(starts_ns), 0)
        return gone


def merged(edits: Iterable[Edit]) -> Edit:
    """All edits as one. Where two touch the same event, the one that leaves less of it wins."""
    every = tuple(edits)
    keep: dict[int, float] = {}
    for edit in every:
        for row, share in edit.keep.items():
            keep[row] = min(keep.get(row, share), share)
    return Edit(
        keep=keep,
        free=_rows(edit.free for edit in every),
        aside=_rows(edit.aside for edit in every),
        joined=_rows(edit.joined for edit in every),
        no_launch_gaps=any(edit.no_launch_gaps for edit in every),
    )


def _rows(of_edits: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({row for rows in of_edits for row in rows}))


def removed(starts: Ints, ends: Ints, keep: Shares) -> Removed:
    """The host time that goes when each interval keeps its share; where they overlap, the largest loss counts once.

    The intervals must be of one thread: time is only shared out along one line of work.
    """
    lost = 1.0 - np.clip(keep, 0.0, 1.0)
    edges = np.sort(np.concatenate((starts, ends)), kind="stable")
    edges = edges[np.append(True, edges[1:] > edges[:-1])[: len(edges)]]
    if len(edges) < 2:
        return Removed(edges[:0], edges[:0], np.empty(0))
    first, last = np.searchsorted(edges, starts), np.searchsorted(edges, ends)
    share = np.zeros(len(edges) - 1)
    order = np.argsort(lost, kind="stable")
    for alike in np.split(
        order, np.flatnonzero(np.diff(lost[order])) + 1
    ):  # the largest loss is written last and stays
        share[_covered(first[alike], last[alike], len(share))] = lost[alike[0]]
    goes = share > 0
    return Removed(edges[:-1][goes], edges[1:][goes], share[goes])


def _covered(first: Ints, last: Ints, count: int) -> Bools | slice:
    """The pieces that any of the stretches from `first` to before `last` holds."""
    if len(first) == 1:
        return slice(int(first[0]), int(last[0]))
    edges = np.bincount(first, minlength=count + 1) - np.bincount(last, minlength=count + 1)
    covered: Bools = np.cumsum(edges)[:-1] > 0
    return covered
