"""Sets of intervals, against the same sets painted on a line of single nanoseconds."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from profiler_doctor.analyzer.measures import intervals
from profiler_doctor.analyzer.measures.intervals import Intervals, covered_ns, gaps, shared, union, union_ns, without

Pairs = list[tuple[int, int]]


def merged(pairs: Pairs) -> Intervals:
    starts, ends = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return union(starts, ends)


def pairs_of(parts: Intervals) -> Pairs:
    return list(zip(parts.starts.tolist(), parts.ends.tolist(), strict=True))


def painted(pairs: Pairs) -> set[int]:
    return {point for start, end in pairs for point in range(start, end)}


def drawn(seed: int) -> Pairs:
    rng = random.Random(seed)
    return [(start, start + rng.randrange(6)) for start in (rng.randrange(60) for _ in range(rng.randrange(12)))]


def test_the_union_merges_what_touches_and_leaves_out_what_is_empty() -> None:
    assert pairs_of(merged([(5, 7), (0, 3), (3, 4), (6, 9), (20, 20), (12, 11)])) == [(0, 4), (5, 9)]
    assert union_ns(np.array([0, 2]), np.array([5, 3])) == 5


def test_the_union_of_many_intervals_is_the_same_when_it_is_made_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "AT_ONCE", 3)
    for seed in range(200):
        pairs = drawn(seed)
        found = pairs_of(merged(pairs))
        assert painted(found) == painted(pairs)
        assert all(end < start for (_, end), (start, _) in pairwise(found)), "merged where they touch"


def test_the_gaps_lie_between_the_merged_intervals() -> None:
    found = gaps(np.array([10, 0, 4]), np.array([12, 3, 5]))
    assert pairs_of(found) == [(3, 4), (5, 10)]
    assert found.owner.tolist() == [0, 1]


def test_moments_without_length_bound_the_gaps_and_split_them() -> None:
    starts, ends = np.array([0, 3, 7, 6, 12]), np.array([0, 5, 7, 10, 12])
    assert pairs_of(gaps(starts, ends)) == [(0, 3), (5, 6), (10, 12)]
    assert pairs_of(gaps(np.array([2, 5, 9]), np.array([2, 5, 9]))) == [(2, 5), (5, 9)]
    assert pairs_of(gaps(np.array([4]), np.array([4]))) == pairs_of(gaps(np.empty(0, int), np.empty(0, int))) == []


def test_what_two_sets_share_and_do_not_share_is_what_a_brush_says() -> None:
    for seed in range(300):
        first, second = drawn(seed), drawn(seed + 1000)
        parts, cover = merged(first), merged(second)
        assert painted(pairs_of(shared(parts, cover))) == painted(first) & painted(second)
        assert painted(pairs_of(without(parts, cover))) == painted(first) - painted(second)
        assert parts.total_ns == len(painted(first))


def test_parts_keep_their_owner_when_they_are_cut() -> None:
    parts = Intervals(np.array([0, 10]), np.array([10, 20]), np.array([7, 4]))
    cover = merged([(2, 3), (8, 12), (19, 30)])
    assert shared(parts, cover).owner.tolist() == [7, 7, 4, 4]
    assert without(parts, cover).owner.tolist() == [7, 7, 4]
    assert covered_ns(parts, cover, 8).tolist() == [0, 0, 0, 0, 3, 0, 0, 3]


def test_empty_sets_share_nothing() -> None:
    nothing, some = merged([]), merged([(1, 5)])
    assert pairs_of(shared(some, nothing)) == pairs_of(shared(nothing, some)) == pairs_of(without(nothing, some)) == []
    assert pairs_of(without(some, nothing)) == [(1, 5)]
    assert covered_ns(some, nothing, 1).tolist() == [0]
