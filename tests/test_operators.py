"""Which line of a function holds the operator that an op came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.operators import operator_line

SOURCE = """\
def net(x):
    y = f(x)
    z = y * 2
    if z > 1:
        z = z[0] + 1
    w = g(z)
    return w * 3


@h
def loop(x):
    for number in range(9):
        x = f(x)
        x *= 2
    return x / 2, lambda y: y / 3


scale = a * b
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("inside", "op", "calls", "line"),
    [
        (1, "aten::mul", (2, 6), 3),
        (1, "aten::mul", (6, None), 7),
        (1, "aten::mul", (None, None), None),
        (1, "aten::mul", (None, 2), None),
        (1, "aten::gt", (2, 6), 4),
        (1, "aten::is_nonzero", (2, 6), 4),
        (1, "aten::select", (2, 6), 5),
        (1, "aten::add", (2, 6), 5),
        (1, "aten::sub", (2, 6), None),
        (1, "aten::linear", (2, 6), None),
        (10, "aten::mul_", (13, 13), 14),
        (10, "aten::div", (13, None), 15),
        (12, "aten::mul", (13, 13), 14),
        (18, "aten::mul", (None, None), 18),
        (18, "aten::div", (None, None), None),
        (99, "aten::mul", (None, None), None),
    ],
    ids=str,
)
def test_the_one_operator_between_the_calls_is_meant(
    source: Path, inside: int, op: str, calls: tuple[int | None, int | None], line: int | None
) -> None:
    assert operator_line(source, inside, op, calls) == line


def test_in_a_loop_the_next_call_may_stand_above(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text("def f(x):\n    for _ in y:\n        a(x)\n        u = -x\n        b(x)\n        v = -x\n")

    assert operator_line(source, 1, "aten::neg", (5, 3)) == 6
    assert operator_line(source, 1, "aten::neg", (3, 5)) == 4
    assert operator_line(source, 1, "aten::neg", (3, 3)) is None


@pytest.mark.parametrize("text", ["def (:", "x = 1\n" * 200_000, "x = " + "-" * 5000 + "1"], ids=["no", "long", "deep"])
def test_what_cannot_be_read_tells_nothing(tmp_path: Path, text: str) -> None:
    source = tmp_path / "net.py"
    source.write_text(text)

    assert operator_line(source, 1, "aten::mul", (None, None)) is None
    assert operator_line(tmp_path / "gone.py", 1, "aten::mul", (None, None)) is None
