"""The lines around a finding: read from the script's folder when the document is made, and from nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer.diagnosis import Subject, diagnosis, measured
from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.excerpts import with_excerpts
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.model import Finding, RuleOutcome, Stake, Where
from profiler_doctor.analyzer.totals import Totals
from tests.trace_builder import TraceBuilder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("".join(f"line_{number} = 1  \n" for number in range(1, 11)), encoding="utf-8")
    (tmp_path / "secret.txt").write_text("not a program\n" * 10, encoding="utf-8")
    return tmp_path


def outcome(file: str | None, line: int | None) -> RuleOutcome:
    finding = Finding(message="slow", stake=Stake(), where=Where(file=file, line=line))
    return RuleOutcome(code="A001", name="a", status="found", findings=(finding,))


def place(folder: Path, file: str | None, line: int | None) -> Where:
    return with_excerpts((outcome(file, line),), folder)[0].findings[0].where


def test_three_lines_on_either_side_are_kept(folder: Path) -> None:
    found = place(folder, "train.py", 5)

    assert found.excerpt_from == 2
    assert found.excerpt == tuple(f"line_{number} = 1" for number in range(2, 9))


@pytest.mark.parametrize(("line", "first", "count"), [(1, 1, 4), (10, 7, 4)])
def test_a_file_ends_somewhere(folder: Path, line: int, first: int, count: int) -> None:
    found = place(folder, str(folder / "train.py"), line)

    assert (found.excerpt_from, len(found.excerpt)) == (first, count)


@pytest.mark.parametrize(
    ("file", "line"),
    [("secret.txt", 2), ("gone.py", 1), ("train.py", 11), ("train.py", None), (None, 3), ("a\0.py", 1)],
)
def test_what_is_no_line_of_the_program_has_no_excerpt(folder: Path, file: str | None, line: int | None) -> None:
    assert place(folder, file, line) == Where(file=file, line=line)


@pytest.mark.parametrize(("facts", "lines"), [(None, 0), ("own", 7)])
def test_only_a_program_that_ran_here_is_read(folder: Path, facts: str | None, lines: int) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).trace(folder)
    trace = replace(trace, facts=Facts(source_folder=str(folder)) if facts else None)
    examination = Examination(outcomes=(outcome("train.py", 5),), health=(), joint=Stake())

    made = diagnosis(Subject(name="train.py", command=()), trace, examination)

    assert len(made.outcomes[0].findings[0].where.excerpt) == lines


def test_of_many_step_times_some_from_first_to_last_are_kept() -> None:
    few = measured(Totals(), Facts(step_ns=(5, 3, 4)))
    many = measured(Totals(), Facts(step_ns=tuple(range(1000, 2600))))

    assert few.timed_step_ns == (5, 3, 4)
    assert len(many.timed_step_ns) == 400
    assert (many.timed_step_ns[0], many.timed_step_ns[-1]) == (1000, 2599)
