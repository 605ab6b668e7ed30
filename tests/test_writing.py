"""The reports as files: whole or not there, and one that breaks is named while the others are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.errors import UserError
from profiler_doctor.analyzer.files import write_whole
from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.reports.writing import write_all
from tests import documents

GOOD = Report(name="good", filename="good.txt", render=lambda diagnosis, trace: b"fine")


def breaks(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:
    raise ZeroDivisionError("a bug")


def refuses(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:
    raise UserError("this trace has no events.")


def test_all_reports_with_a_file_are_written(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": []}', encoding="utf-8")
    reports = find("profiler_doctor.reports", Report).items

    paths = write_all(documents.resnet(), tmp_path / "out", trace, reports)

    names = {"diagnosis.json", "report.html", "report.md", "trace-with-findings.json.gz"}
    assert names <= {path.name for path in paths}
    assert sorted(paths) == sorted((tmp_path / "out").iterdir())


def test_without_a_trace_the_reports_that_need_one_are_passed_over(tmp_path: Path) -> None:
    said: list[str] = []

    paths = write_all(documents.resnet(), tmp_path, None, find("profiler_doctor.reports", Report).items, said.append)

    assert "trace-with-findings.json.gz" not in {path.name for path in paths}
    assert said == []


def test_a_report_that_breaks_is_named_and_the_others_are_written(tmp_path: Path) -> None:
    said: list[str] = []
    reports = (
        Report(name="bad", filename="bad.txt", render=breaks),
        Report(name="no", filename="no.txt", render=refuses),
        GOOD,
    )

    paths = write_all(documents.healthy(), tmp_path, None, reports, said.append)

    assert [path.name for path in paths] == ["good.txt"]
    assert said == [
        "The bad report broke and was not written (ZeroDivisionError: a bug).",
        "No no.txt: this trace has no events.",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["good.txt"]


def test_a_folder_that_takes_no_files_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(UserError, match=r"file/good\.txt cannot be written"):
        write_all(documents.healthy(), tmp_path / "file", None, [GOOD])


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "x", b"old")

    with pytest.raises(TypeError):
        write_whole(path, "not bytes")  # type: ignore[arg-type]  # stands for a disk that is full

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
