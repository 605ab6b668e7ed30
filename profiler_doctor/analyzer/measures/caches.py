"""Caches that grow by one token at a time by being put together anew."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from profiler_doctor.analyzer.measures.operands import list_dims
from profiler_doctor.analyzer.measures.share import rows_in_window
from profiler_doctor.analyzer.trace import Ints, Trace, measure

RANKS = (3, 4)
"""[batch · heads, tokens, width] or [batch, heads, tokens, width]."""
KEYS_AND_VALUES = 2
FEWEST_TOKENS = 3
"""Growth that is seen twice is no accident."""


@dataclass(frozen=True)
class GrowingCache:
    """Concatenations (event rows, in time order) of a cache with one more token, and the tokens before each one."""

    rows: tuple[int, ...]
    tokens: tuple[int, ...]
    dims: tuple[int, ...]
    """Of the largest cache seen, before a token is added."""
    axis: int
    each: int
    """Concatenations for each token: two for each layer, of keys and of values."""


@measure
def growing_caches(trace: Trace) -> tuple[GrowingCache, ...]:
    """Those of the judged window: as many concatenations at each length, and the lengths go up by one."""
    rows = rows_in_window(trace, trace.rows_named("aten::cat".__eq__, ("cpu_op",)))
    rows = rows[np.argsort(trace.events.start_ns[rows], kind="stable")]
    kinds: dict[tuple[tuple[int, ...], int], list[tuple[int, int]]] = {}
    for row, appended in zip(rows.tolist(), _appended(trace, rows), strict=True):
        if appended is not None:
            dims, axis = appended
            rest = (*dims[:axis], 0, *dims[axis + 1 :])
            kinds.setdefault((rest, axis), []).append((row, dims[axis]))
    found = []
    for (rest, axis), calls in kinds.items():
        found += [_cache(run, rest, axis) for run in _runs(calls)]
    return tuple(found)


def _appended(trace: Trace, rows: Ints) -> list[tuple[tuple[int, ...], int] | None]:
    """For each concatenation the first tensor's shape and the axis along which one more is put; None for others."""
    codes = trace.events.text("Input Dims").at(rows, -1)
    _, first, same = np.unique(codes, return_index=True, return_inverse=True)
    distinct = [_one_more(list_dims(trace, row)) for row in rows[first].tolist()]
    return [distinct[place] for place in same.tolist()]


def _one_more(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], int] | None:
    if len(shapes) != 2 or len(shapes[0]) not in RANKS or len(shapes[0]) != len(shapes[1]):
        return None
    differ = [axis for axis, pair in enumerate(zip(*shapes, strict=True)) if pair[0] != pair[1]]
    return (shapes[0], differ[0]) if len(differ) == 1 and shapes[1][differ[0]] == 1 else None


def _runs(calls: list[tuple[int, int]]) -> list[list[list[tuple[int, int]]]]:
    """The calls grouped by tokens, in runs in which the tokens go up by one from group to group."""
    groups = [list(group) for _, group in groupby(calls, key=lambda call: call[1])]
    runs: list[list[list[tuple[int, int]]]] = [groups[:1]]
    for before, group in pairwise(groups):
        grows = group[0][1] == before[0][1] + 1 and len(group) == len(before)
        runs.append([group]) if not grows else runs[-1].append(group)
    return [run for run in runs if len(run) >= FEWEST_TOKENS and len(run[0]) >= KEYS_AND_VALUES]


def _cache(run: list[list[tuple[int, int]]], rest: tuple[int, ...], axis: int) -> GrowingCache:
    calls = [call for group in run for call in group]
    longest = max(tokens for _, tokens in calls)
    dims = (*rest[:axis], longest, *rest[axis + 1 :])
    rows, tokens = tuple(row for row, _ in calls), tuple(count for _, count in calls)
    return GrowingCache(rows, tokens, dims, axis, len(run[0]))
