"""Results kept over time: added and read back, told as text and as a page, and the noise that they show."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from profiler_doctor.analyzer import history
from profiler_doctor.analyzer.gate import Check, Checked, TimeChange
from profiler_doctor.analyzer.history import Result, UnusableHistory
from profiler_doctor.reports import history_page
from profiler_doctor.verbs.history import history as verb

RESULT = Result(
    at="2026-01-02T03:04:05+00:00",
    revision="0123456789abcdef",
    workload="train",
    against="main",
    exit_code=0,
    ratio=1.01,
    step_ns=12_000_000,
    circumstances={"cpu": "Zen 4", "torch": "2.6"},
    counters={"ops": 12, "op_sequence": "aa"},
)


def test_results_come_back_in_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.sqlite"
    history.add(path, [RESULT])
    history.add(path, [replace(RESULT, exit_code=1), replace(RESULT, ratio=None, step_ns=None)])

    assert history.load(path) == (RESULT, replace(RESULT, exit_code=1), replace(RESULT, ratio=None, step_ns=None))


def test_a_check_adds_the_workloads_of_which_something_was_counted() -> None:
    time = TimeChange(verdict="pass", reason="", ratio=1.5, after_ns=7)
    done = Checked(name="a", command=("a.py",), against="main", counters={"ops": 3}, time=time)
    undone = Checked(name="b", command=("b.py",), against="", problem="there is no baseline")

    (found,) = history.results_of(Check(workloads=(done, undone)), datetime(2026, 1, 2, tzinfo=UTC), "abc")

    assert (found.workload, found.revision, found.at) == ("a", "abc", "2026-01-02T00:00:00+00:00")
    assert (found.ratio, found.step_ns, found.counters) == (1.5, 7, {"ops": 3})


def test_noise_is_learnt_from_passing_checks_and_not_from_losses() -> None:
    logs = [-0.02, -0.01, 0.0, 0.01, 0.02]
    passing = [replace(RESULT, ratio=math.exp(each)) for each in logs]
    failing = [replace(RESULT, ratio=2.0, exit_code=1)] * 9

    assert history.noise(passing[:4]) is None
    assert history.noise([*passing, *failing]) == pytest.approx(1.4826 * 0.01)


def test_text_has_a_line_for_each_result(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    history.add(tmp_path / "h", [RESULT, replace(RESULT, exit_code=1, ratio=1.3)])

    assert verb(tmp_path / "h", None) == 0

    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert len(lines) == 3
    assert "0123456789ab" in lines[0]
    assert "12.0 ms" in lines[0]
    assert "exit 1" in lines[1]
    assert "1.300 times" in lines[1]


def test_the_page_needs_no_other_file_and_names_cannot_break_out_of_it() -> None:
    nasty = "</script><img src=x onerror=alert(1)>"

    page = history_page.page([RESULT, replace(RESULT, workload=nasty, revision=nasty)]).decode()

    assert "<img" not in page
    assert "src=" not in page.replace("src=x", "")
    assert "Time of a step" in page
    assert ">train<" in page
    assert len(page) < 3_000_000


def test_the_page_says_without_scripts_what_each_check_found() -> None:
    page = history_page.page([RESULT, replace(RESULT, exit_code=1, ratio=1.3)]).decode()

    rows = page.split("<tbody>")[1].split("</tbody>")[0]
    assert rows.index("worse") < rows.index("passed")  # the newest first
    assert "1.300 times" in rows


@pytest.mark.parametrize("content", [None, b"no database at all, but text of some length" * 9])
def test_a_file_that_is_no_history_is_told_in_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "history.sqlite"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UnusableHistory, match=r"history\.sqlite"):
        history.load(path)

    assert path.exists() == (content is not None)
