"""What a thread did right before an op, on the same level."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.measures.siblings import before_it
from profiler_doctor.analyzer.trace import Trace, empty_trace
from tests.trace_builder import TraceBuilder


def names_before(trace: Trace, *names: str) -> list[str]:
    rows = [trace.events.names_at(range(len(trace.events))).index(name) for name in names]
    return [trace.events.name_of(row) if row >= 0 else "" for row in before_it(trace, rows).tolist()]


def test_the_op_before_is_the_sibling_and_not_its_children(tmp_path: Path) -> None:
    built = TraceBuilder().op("first", 0, 50).op("inside", 10, 30).op("deep", 15, 5)

    assert names_before(built.op("second", 60, 10).trace(tmp_path), "second", "first") == ["first", ""]


def test_a_first_child_has_nothing_before_it(tmp_path: Path) -> None:
    built = TraceBuilder().op("before", 0, 5).op("parent", 10, 50).op("child", 20, 10).op("next", 40, 10)

    assert names_before(built.trace(tmp_path), "child", "next") == ["", "child"]


def test_another_thread_is_not_asked(tmp_path: Path) -> None:
    built = TraceBuilder().op("here", 0, 5)
    built.tid = 2

    assert names_before(built.op("there", 10, 5).trace(tmp_path), "there") == [""]


def test_no_op_has_nothing_before_it() -> None:
    assert before_it(empty_trace(""), [-1]).tolist() == [-1]
