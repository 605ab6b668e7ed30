"""Which slice encloses which on a thread, how deep, and how much time each has to itself.

Crossing policy: the parent of a slice is the latest-started one on its thread that is still open when the slice starts
(a stack, as the profiler itself keeps it). A slice that outlasts its parent is clipped to it when self times are
taken, so self times are never negative and add up exactly to the outermost slices. Of slices with the same start the
longer one is outside, of equal ones the one that stands first in the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler_doctor.analyzer.trace import Bools, Ints

AT_ONCE = 1 << 16
"""Queries that are answered together: what is worked out on the way stays small."""

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
    parent_at = last_above(ends[order], np.arange(len(order)), starts[order])
    parent = np.full(len(order), -1)
    parent[order] = np.where(parent_at >= 0, order[parent_at], -1)
    clipped = _down_from_parents(end_ns, parent)
    own = np.maximum(clipped - start_ns, 0)
    inner = np.zeros(len(order), np.int64)
    np.add.at(inner, parent[parent >= 0], own[parent >= 0])
    return Nesting(order, parent, _depth(parent), own - inner, clipped)


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

    Climbs a tree of block maxima and comes down again, all queries at once: logarithmic, and near at hand for the
    nested slices of a call stack.
    """
    tree = _block_maxima(values)
    found = np.full(len(before), -1)
    for first in range(0, len(before), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        found[part] = _climbed(tree, before[part], floors[part])
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
    depth: Ints = (parent >= 0).astype(np.int64)
    above = parent
    while np.any(above >= 0):
        inside = above >= 0
        depth = depth + np.where(inside, depth[above], 0)
        above = np.where(inside, above[above], -1)
    return depth


def _down_from_parents(end_ns: Ints, parent: Ints) -> Ints:
    """Each end, or the earliest end of any slice around it."""
    clipped, above = end_ns, parent
    while np.any(above >= 0):
        inside: Bools = above >= 0
        clipped = np.where(inside, np.minimum(clipped, clipped[above]), clipped)
        above = np.where(inside, above[above], -1)
    return clipped
