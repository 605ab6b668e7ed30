"""Nesting of slices: parents, depths and self times by hand, and against a stack walked in a plain loop."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from profiler_doctor.analyzer.measures import nesting
from profiler_doctor.analyzer.measures.nesting import innermost_at, last_above, nest
from profiler_doctor.analyzer.measures.ops import nearest_above, outermost
from tests.trace_builder import TraceBuilder

Slice = tuple[int, int, int]
"""Thread, start, end."""


def nested(slices: list[Slice]) -> tuple[list[int], list[int], list[int]]:
    """Parent, depth and self time of each slice."""
    columns = [np.array(column, np.int64) for column in zip(*slices, strict=True)]
    found = nest(columns[0], columns[1], columns[2])
    return found.parent.tolist(), found.depth.tolist(), found.self_ns.tolist()


def test_children_take_their_time_from_the_innermost_parent() -> None:
    outer, middle, inner, sibling = (0, 0, 100), (0, 10, 60), (0, 20, 30), (0, 70, 90)
    assert nested([outer, middle, inner, sibling]) == ([-1, 0, 1, 0], [0, 1, 2, 1], [30, 40, 10, 20])


def test_the_order_of_the_file_does_not_matter() -> None:
    assert nested([(0, 20, 30), (0, 0, 100), (0, 10, 60)]) == ([2, -1, 1], [2, 0, 1], [10, 50, 40])


def test_threads_do_not_nest_into_each_other() -> None:
    assert nested([(5, 0, 100), (9, 10, 20)]) == ([-1, -1], [0, 0], [100, 10])


def test_of_equal_slices_the_first_in_the_file_is_outside() -> None:
    assert nested([(0, 5, 9), (0, 5, 9)]) == ([-1, 0], [0, 1], [0, 4])


def test_of_slices_that_start_together_the_longer_is_outside() -> None:
    assert nested([(0, 5, 7), (0, 5, 9)]) == ([1, -1], [1, 0], [2, 2])


def test_a_slice_that_starts_where_another_ends_is_its_sibling() -> None:
    assert nested([(0, 0, 10), (0, 10, 20)]) == ([-1, -1], [0, 0], [10, 10])


def test_a_slice_without_length_is_inside_and_encloses_nothing() -> None:
    assert nested([(0, 0, 10), (0, 4, 4), (0, 4, 6)]) == ([-1, 2, 0], [0, 2, 1], [8, 0, 2])
    assert nested([(0, 4, 4), (0, 4, 4)])[0] == [-1, -1]


def test_a_child_that_outlasts_its_parent_is_clipped_to_it() -> None:
    assert nested([(0, 0, 10), (0, 6, 14)]) == ([-1, 0], [0, 1], [6, 4])


def test_what_starts_in_the_overhang_belongs_to_the_slice_that_hangs_over() -> None:
    outer, parent, crossing, later = (0, 0, 30), (0, 0, 10), (0, 6, 20), (0, 12, 15)
    parents, _, self_times = nested([outer, parent, crossing, later])
    assert parents == [-1, 0, 1, 2]
    assert self_times == [20, 6, 4, 0]


def test_self_times_add_up_to_the_outermost_slices_whatever_crosses() -> None:
    for slices in _random_slices():
        parents, _, self_times = nested(slices)
        roots = sum(end - start for (_, start, end), parent in zip(slices, parents, strict=True) if parent < 0)
        assert min(self_times) >= 0
        assert sum(self_times) == roots


def test_parents_are_those_of_a_stack() -> None:
    for slices in _random_slices():
        assert nested(slices)[0] == _by_stack(slices)


def _random_slices() -> list[list[Slice]]:
    rng = random.Random(3)
    drawn = []
    for _ in range(300):
        starts = [rng.randrange(40) for _ in range(rng.randrange(1, 40))]
        drawn.append([(rng.randrange(2), start, start + rng.randrange(20)) for start in starts])
    return drawn


def _by_stack(slices: list[Slice]) -> list[int]:
    parents = [-1] * len(slices)
    stacks: dict[int, list[int]] = {}
    order = sorted(range(len(slices)), key=lambda place: (slices[place][1], -slices[place][2], place))
    for place in order:
        thread, start, _ = slices[place]
        stack = stacks.setdefault(thread, [])
        while stack and slices[stack[-1]][2] <= start:
            stack.pop()
        parents[place] = stack[-1] if stack else -1
        stack.append(place)
    return parents


def test_times_too_far_apart_to_be_shifted_nest_as_well() -> None:
    far = 4 * 10**18
    slices = [(thread, far * (thread % 2), far * (thread % 2) + 10) for thread in range(8)]
    slices += [(thread, far * (thread % 2) + 2, far * (thread % 2) + 5) for thread in range(8)]
    assert nested(slices)[0] == [-1] * 8 + list(range(8))


def test_nothing_nests_into_nothing() -> None:
    empty = np.empty(0, np.int64)
    assert nest(empty, empty, empty).parent.tolist() == []
    assert innermost_at(empty, empty, empty, (np.array([1]), np.array([5]))).tolist() == [-1]


needs_it = pytest.mark.skipif(nesting.NATIVE is None, reason="the accelerators were not built here")


@needs_it
def test_both_ways_to_nest_find_the_same_parents_where_slices_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(8)
    starts = [rng.randrange(200) for _ in range(300)]
    slices = [(rng.randrange(3), start, start + rng.randrange(60)) for start in starts]
    native = nested(slices)

    monkeypatch.setattr(nesting, "NATIVE", None)

    assert native == nested(slices)
    assert max(native[1]) > 3


@needs_it
def test_columns_of_different_lengths_are_refused() -> None:
    short, long = np.zeros(2, np.int64), np.zeros(3, np.int64)
    for wrong in range(4):
        columns = [long if place == wrong else short for place in range(4)]
        with pytest.raises(ValueError, match="one length"):
            nesting.NATIVE.nest(*columns)


@pytest.mark.parametrize(
    ("thread", "time", "found"),
    [(0, 0, 0), (0, 25, 1), (0, 30, 0), (0, 99, 0), (0, 100, -1), (0, -1, -1), (1, 25, -1), (7, 25, -1)],
)
def test_the_innermost_slice_at_a_time_is_open_from_its_start_to_before_its_end(
    thread: int, time: int, found: int
) -> None:
    threads, starts, ends = np.array([0, 0, 1]), np.array([0, 20, 50]), np.array([100, 30, 60])
    assert innermost_at(threads, starts, ends, (np.array([thread]), np.array([time]))).tolist() == [found]


def test_the_last_value_above_a_floor_is_found_wherever_it_stands() -> None:
    rng = random.Random(5)
    for size in (1, 2, 3, 7, 64, 100):
        values = [rng.randrange(10) for _ in range(size)]
        queries = [(rng.randrange(size + 1), rng.randrange(-1, 11)) for _ in range(50)]
        wanted = [max((i for i in range(before) if values[i] > floor), default=-1) for before, floor in queries]
        before, floors = (np.array(side) for side in zip(*queries, strict=True))
        assert last_above(np.array(values), before, floors).tolist() == wanted


def test_thousands_of_slices_in_each_other_are_climbed_as_a_few_are(tmp_path: Path) -> None:
    def found(levels: int) -> tuple[list[int], list[int]]:
        built = TraceBuilder()
        for level in range(levels):
            built.op("aten::b" if level % 3 == 1 else "aten::a", level, 2 * levels - 2 * level)
        trace = built.trace(tmp_path)
        rows = trace.rows("cpu_op")
        chosen = trace.events.matching_names("aten::b".__eq__)[trace.events.name]
        asked = np.append(rows[:4], -1)
        return outermost(trace, asked, chosen).tolist(), nearest_above(trace, rows[:6], chosen).tolist()

    first, few = int(TraceBuilder().op("x", 0, 1).trace(tmp_path).rows("cpu_op")[0]), found(10)

    assert few == ([-1, first + 1, first + 1, first + 1, -1], [-1, -1, first + 1, first + 1, first + 1, first + 4])
    assert found(5_000) == few
