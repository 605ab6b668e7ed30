"""MEM003: a variable holds the autograd graphs of past steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.facts import GrowthFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.graph_kept_alive import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def growing(folder: Path, **more: Any) -> Trace:
    """Two steps; `total` of train.py held 50 nodes, and 8 steps later 130, unless told otherwise."""
    usual: dict[str, Any] = {
        "steps": 8,
        "nodes_before": 50,
        "nodes_between": (50 + more.get("nodes_after", 130)) // 2,
        "nodes_after": 130,
        "bytes_before": 4,
        "bytes_after": 4,
        "holder": "total",
        "file": "train.py",
        "line": 31,
    }
    built = TraceBuilder().step(0, 0, 1_000_000).step(1, 1_000_000, 1_000_000).op("aten::add", 10_000, 5_000)
    return observed(built.trace(folder), growth=GrowthFacts(**(usual | more)))


def test_a_graph_that_grows_in_each_step_is_found_at_the_line_that_adds_to_it(tmp_path: Path) -> None:
    [seen] = ask(RULE, growing(tmp_path))

    assert (seen.where.file, seen.where.line) == ("train.py", 31)
    assert seen.evidence["nodes_per_step"] == pytest.approx(10)
    assert "`total`" in seen.message
    assert seen.intervals_ns == ((0, 1_000_000), (1_000_000, 2_000_000))


def test_of_time_nothing_is_claimed(tmp_path: Path) -> None:
    assert ask(RULE, growing(tmp_path))[0].edit is None


@pytest.mark.parametrize(("nodes_after", "found"), [(57, False), (58, True)])
def test_one_node_a_step_is_what_an_addition_makes(tmp_path: Path, nodes_after: int, found: bool) -> None:
    assert bool(ask(RULE, growing(tmp_path, nodes_after=nodes_after))) is found


@pytest.mark.parametrize(("steps_between", "found"), [(12, True), (8, False)])
def test_the_growth_is_compared_step_by_step(tmp_path: Path, steps_between: int, found: bool) -> None:
    """From 0 to 60 to 100 nodes in 20 steps: 5 per step all the time, or 7.5 and then 3.3."""
    trace = growing(tmp_path, steps=20, steps_between=steps_between, nodes_before=0, nodes_between=60, nodes_after=100)

    assert bool(ask(RULE, trace)) is found


@pytest.mark.parametrize(("in_one_step", "found"), [(None, True), (10, True), (13, True), (14, False)])
def test_a_sum_over_micro_batches_falls_back_and_does_not_grow(
    tmp_path: Path, in_one_step: int | None, found: bool
) -> None:
    """80 nodes in 8 steps: a step that adds more than 10 / 0.75 tells of others that let go."""
    assert bool(ask(RULE, growing(tmp_path, nodes_in_one_step=in_one_step))) is found


def test_results_that_are_kept_without_their_graph_are_in_order(tmp_path: Path) -> None:
    assert ask(RULE, growing(tmp_path, nodes_before=0, nodes_between=0, nodes_after=0, bytes_after=4_000_000)) == []


def test_a_graph_that_is_let_go_is_in_order(tmp_path: Path) -> None:
    assert ask(RULE, growing(tmp_path, nodes_after=10)) == []


@pytest.mark.parametrize("nodes_between", [50, 40, 75, 130, 190])
def test_a_graph_that_changes_with_its_input_does_not_grow(tmp_path: Path, nodes_between: int) -> None:
    assert ask(RULE, growing(tmp_path, nodes_between=nodes_between)) == []


def test_a_run_too_short_to_look_again_tells_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1_000_000).op("aten::add", 10_000, 5_000).trace(tmp_path)

    assert ask(RULE, observed(trace)) == []
