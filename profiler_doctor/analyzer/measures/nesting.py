"""Which slice encloses which on a thread, how deep, and how much time each has to itself.

Crossing policy: the parent of a slice is the latest-started one on its thread that is still open when the slice starts
(a stack, as the profiler itself keeps it). A slice that outlasts its parent is clipped to it when self times are
taken, so self times are never negative and add up exactly to the outermost slices. Of slices with the same start the
longer one is outside, of equal ones the one that stands first in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.native import accelerator
from profiler_doctor.analyzer.trace import Ints

NATIVE = accelerator("profiler_doctor.analyzer.measures._nest")

AT_ONCE = 1 << 16
"""Queries that are answered together: what is worked out on the way stays small."""

NEAR = 4
"""Slices looked at one by one before the tree is climbed: most find the one around them among so many."""

FEW = 8
"""Where there are more than so many slices for each query, those that no query can find are left out first."""


@dataclass(frozen=True, eq=False)
class Nesting:
    """Arrays over the given slices, in the order in which they were given; a place is an index into that order."""

    order: Ints
    """Places sorted by thread, start, longest first."""
    parent: Ints
    """Place of the enclosing slice, -1 outermost."""
    depth: Ints
    self_ns: Ints
    """The slice's own time less its children's, all clipped to the parent."""
    clipped_end_ns: Ints


def nest(thread: Ints, start_ns: Ints, end_ns: Ints) -> Nesting:
    """Nest slices; `thread` are codes, times int64 ns."""
    starts, ends = _apart(thread, start_ns, end_ns)
    order = _longest_first(starts, ends)
    parent_at, depth_at = _nested(starts[order], ends[order])
    parent, depth = np.full(len(order), -1), np.empty(len(order), np.int64)
    parent[order], depth[order] = np.where(parent_at >= 0, order[parent_at], -1), depth_at
    clipped = _clipped(end_ns, parent)
    own = np.maximum(clipped - start_ns, 0)
    inner = np.zeros(len(order), np.int64)
    np.add.at(inner, parent[parent >= 0], own[parent >= 0])
    return Nesting(order, parent, depth, own - inner, clipped)


def _nested(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """For slices in order the place of the one around each, -1 for none, and how many are around it.

    Found twice, here and in native/nest.c: every measure of the host needs it.
    """
    if NATIVE:
        parent, depth = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        NATIVE.nest(starts, ends, parent, depth)
        return parent, depth
    parent = _parents(starts, ends)
    return parent, _depth(parent)


def _parents(starts: Ints, ends: Ints) -> Ints:
    """The place of the slice around each.

    Everything between a slice and the candidate for it is closed when it starts. A candidate that is closed then, too,
    gives way to its own candidate, all at once: with each round they lie twice as far back.
    """
    found = np.arange(-1, len(starts) - 1)
    inner = starts[1:] < np.maximum.accumulate(ends)[:-1]
    found[1:][~inner] = -1
    asking = np.flatnonzero(found >= 0)
    while len(asking):
        asking = asking[ends[found[asking]] <= starts[asking]]
        found[asking] = found[found[asking]]
        asking = asking[found[asking] >= 0]
    return found


def innermost_at(thread: Ints, start_ns: Ints, end_ns: Ints, at: tuple[Ints, Ints]) -> Ints:
    """The place of the innermost slice open at each (thread, time) of `at`, -1 for none; at its end it is closed."""
    if len(at[1]) * FEW >= len(start_ns):
        return _innermost(thread, start_ns, end_ns, at)
    times = np.sort(at[1])  # only slices that are open at any of them, on whatever thread, can be found
    open_then = np.flatnonzero(np.searchsorted(times, start_ns) < np.searchsorted(times, end_ns))
    found = _innermost(thread[open_then], start_ns[open_then], end_ns[open_then], at)
    return np.append(open_then, -1)[found]


def _innermost(thread: Ints, start_ns: Ints, end_ns: Ints, at: tuple[Ints, Ints]) -> Ints:
    count = len(start_ns)
    every = np.concatenate((thread, at[0]))
    starts, ends = _apart(every, np.concatenate((start_ns, at[1])), np.concatenate((end_ns, at[1])))
    order = _longest_first(starts[:count], ends[:count])
    after = np.searchsorted(starts[:count][order], starts[count:], side="right")
    found = last_above(ends[:count][order], after, starts[count:])
    return np.where(found >= 0, order[found], -1) if count else found


def last_above(values: Ints, before: Ints, floors: Ints) -> Ints:
    """For each query the last index i < `before` with values[i] > `floors`, -1 for none.

    Looks at the nearest ones, then climbs a tree of block maxima and comes down again, all queries at once:
    logarithmic, and near at hand for the nested slices of a call stack.
    """
    found = np.asarray(before, np.int64) - 1
    highest = np.append(np.maximum.accumulate(values), np.iinfo(np.int64).min)
    found[highest[found] <= floors] = -1
    asking = np.flatnonzero(found >= 0)
    for _ in range(NEAR):
        asking = asking[values[found[asking]] <= floors[asking]]
        found[asking] -= 1
        asking = asking[found[asking] >= 0]
    tree = _block_maxima(values) if len(asking) else []
    for first in range(0, len(asking), AT_ONCE):
        part = asking[first : first + AT_ONCE]
        found[part] = _climbed(tree, found[part] + 1, floors[part])
    return found


def _climbed(tree: list[Ints], before: Ints, floors: Ints) -> Ints:
    found = np.full(len(before), -1)
    asking, block, level = np.flatnonzero(before > 0), before[before > 0], 0
    while len(asking):
        left = (block & 1) == 1
        hit = left & (tree[level][np.maximum(block - 1, 0)] > floors[asking])
        found[asking[hit]] = _descend(tree, level, block[hit] - 1, floors[asking[hit]])
        open_still = ~hit & (block >> 1 > 0)
        asking, block, level = asking[open_still], block[open_still] >> 1, level + 1
    return found


def _block_maxima(values: Ints) -> list[Ints]:
    tree = [values]
    while len(tree[-1]) > 1:
        below = tree[-1]
        paired = np.append(below, np.iinfo(np.int64).min) if len(below) % 2 else below
        tree.append(np.maximum(paired[0::2], paired[1::2]))
    return tree


def _descend(tree: list[Ints], level: int, block: Ints, floors: Ints) -> Ints:
    for below in reversed(tree[:level]):
        right = 2 * block + 1
        inside = right < len(below)
        take_right = inside & (below[np.where(inside, right, 0)] > floors)
        block = np.where(take_right, right, 2 * block)
    return block


def _longest_first(starts: Ints, ends: Ints) -> Ints:
    """The order by start, of equal ones the longest first, then as given.

    Files are nearly in order, which a stable sort of one key uses; only equal starts are sorted by two.
    """
    order = np.argsort(starts, kind="stable")
    again = np.flatnonzero(starts[order][1:] == starts[order][:-1])
    if len(again):
        is_alike = np.zeros(len(order), np.bool_)
        is_alike[again] = is_alike[again + 1] = True
        alike = np.flatnonzero(is_alike)
        those = order[alike]
        order[alike] = those[np.lexsort((-ends[those], starts[those]))]
    return order


def _dense(codes: Ints) -> Ints:
    """The codes numbered anew without holes, in order."""
    used = np.zeros(int(codes.max()) + 1, np.int64)
    used[codes] = 1
    return (np.cumsum(used) - 1)[codes]


def _apart(thread: Ints, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """Starts and ends shifted so that the threads' times do not meet, order within a thread unchanged."""
    if not len(start_ns):
        return start_ns, end_ns
    first, span = int(start_ns.min()), int(end_ns.max()) - int(start_ns.min()) + 1
    codes = _dense(thread)
    if span * (int(codes.max()) + 1) < 1 << 62:
        return start_ns - first + codes * span, end_ns - first + codes * span
    ranks = np.unique(np.concatenate((start_ns, end_ns)), return_inverse=True)[1]  # times too far apart to shift
    span = len(ranks)
    return ranks[: len(start_ns)] + codes * span, ranks[len(start_ns) :] + codes * span


def _depth(parent: Ints) -> Ints:
    """How many slices are around each."""
    depth, above = (parent >= 0).astype(np.int64), parent.copy()
    inside = np.flatnonzero(above >= 0)
    while len(inside):
        over = above[inside]
        depth[inside] += depth[over]
        above[inside] = above[over]
        inside = inside[above[inside] >= 0]
    return depth


def _clipped(end_ns: Ints, parent: Ints) -> Ints:
    """Each end, or the earliest end of any slice around it."""
    clipped, above = end_ns, parent
    while np.any(above >= 0):
        cut: Ints = np.where(above >= 0, np.minimum(clipped, clipped[above]), clipped)
        if np.array_equal(cut, clipped):
            return clipped
        clipped, above = cut, np.where(above >= 0, above[above], -1)
    return clipped
