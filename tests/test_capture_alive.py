"""Which line makes a variable grow: found in the script's text, for a frame tells only which line is under way."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from types import FrameType

import pytest

from profiler_doctor.analyzer.capture.child.alive import where_it_grows


def frame_of(script: Path, source: str) -> FrameType:
    """The frame that calls `look` when the source runs."""
    seen: list[FrameType] = []
    script.write_text(dedent(source))
    exec(compile(script.read_text(), str(script), "exec"), {"look": lambda: seen.append(sys._getframe(1))})
    return seen[0]


@pytest.mark.parametrize(
    "addition", ["total += loss", "total = total + loss", "total=total+loss", "total.append(loss)"]
)
def test_a_global_that_a_function_adds_to_grows_at_that_functions_line(tmp_path: Path, addition: str) -> None:
    frame = frame_of(
        tmp_path / "train.py",
        f"""
        def step(loss):
            global total
            {addition}

        total = []
        look()
        """,
    )

    file, line = where_it_grows(frame, "total")

    assert (Path(file).name, line) == ("train.py", 4)


def test_the_holders_own_lines_come_first(tmp_path: Path) -> None:
    frame = frame_of(
        tmp_path / "train.py",
        """
        def log(total):
            total += 1

        total = 0
        for loss in [1.0]:
            total += loss
            look()
        """,
    )

    assert where_it_grows(frame, "total")[1] == 7


def test_a_local_of_one_function_does_not_grow_in_another(tmp_path: Path) -> None:
    frame = frame_of(
        tmp_path / "train.py",
        """
        def log(total):
            total += 1

        def train(total):
            look()

        train(0)
        """,
    )

    assert where_it_grows(frame, "total")[1] == 6


def test_a_comparison_adds_nothing(tmp_path: Path) -> None:
    frame = frame_of(
        tmp_path / "train.py",
        """
        total = 0
        same = total == total
        look()
        """,
    )

    assert where_it_grows(frame, "total")[1] == 4
