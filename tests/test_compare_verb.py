"""`profiler-doctor compare A B`: traces, documents and folders of runs, three formats, and code 3 for a refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_doctor.analyzer import document
from tests import documents
from tests.trace_builder import TraceBuilder


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "profiler_doctor", *words], capture_output=True, encoding="utf-8", check=False
    )


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    before = TraceBuilder().op("aten::mm", 0, 100).op("aten::add", 200, 50)
    after = TraceBuilder().op("aten::mm", 0, 70).op("aten::add", 200, 50)
    return str(before.write(tmp_path, "before.json")), str(after.write(tmp_path, "after.json"))


def test_traces_are_lined_up_as_text(pair: tuple[str, str]) -> None:
    ended = doctor("compare", *pair)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "aten::mm" in ended.stdout
    assert "-30 ns (-30.0 %)" in ended.stdout
    assert "aten::add" not in ended.stdout


def test_json_holds_every_row_whole(pair: tuple[str, str]) -> None:
    found = json.loads(doctor("compare", *pair, "--format", "json").stdout)

    assert (found["unit"], found["schema_version"]) == ("recording", 1)
    assert [(row["name"], row["status"], row["host_change_ns"]) for row in found["ops"]] == [
        ("aten::mm", "changed", -30),
        ("aten::add", "same", 0),
    ]
    assert found["ops"][0]["before"] == {"count": 1, "host_ns": 100, "gpu_ns": 0}


def test_markdown_goes_into_a_file(pair: tuple[str, str], tmp_path: Path) -> None:
    ended = doctor("compare", *pair, "--format", "md", "--out", str(tmp_path / "compare.md"))

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "| aten::mm | 1 | 100 ns → 70 ns | -30 ns (-30.0 %) |" in (tmp_path / "compare.md").read_text("utf-8")


@pytest.mark.parametrize("words", [("--format", "html"), ("--out", "FILE")])
def test_a_page_is_written_where_the_file_is_named_as_one(
    pair: tuple[str, str], tmp_path: Path, words: tuple[str, str]
) -> None:
    out = tmp_path / "compare.html"

    ended = doctor("compare", *pair, words[0], words[1].replace("FILE", str(out)))

    page = out.read_text("utf-8") if "FILE" in words else ended.stdout
    assert (ended.returncode, ended.stderr) == (0, "")
    assert page.startswith("<!doctype html>")
    assert "-30 ns (-30.0 %)" in page


def test_documents_and_the_folders_of_runs_are_taken_too(pair: tuple[str, str], tmp_path: Path) -> None:
    for name, trace in zip(("one", "two"), pair, strict=True):
        assert doctor("analyze", trace, "--out", str(tmp_path / name)).returncode == 0

    of_documents = doctor("compare", str(tmp_path / "one" / "diagnosis.json"), str(tmp_path / "two"))
    mixed = doctor("compare", str(tmp_path / "one"), pair[1])

    assert "-30 ns (-30.0 %)" in of_documents.stdout
    assert "-30 ns (-30.0 %)" in mixed.stdout


def test_what_does_not_measure_the_same_ends_with_code_3_and_the_reason(pair: tuple[str, str], tmp_path: Path) -> None:
    other = TraceBuilder().launch("gemm", at=(0, 5), on_gpu=(10, 5)).op("aten::mm", 0, 9).write(tmp_path, "gpu.json")

    ended = doctor("compare", pair[0], str(other), "--format", "json")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert "not comparable" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_document_from_the_future_is_refused_in_a_sentence(pair: tuple[str, str], tmp_path: Path) -> None:
    path = document.save(documents.resnet(), tmp_path / "diagnosis.json")
    path.write_text(path.read_text("utf-8").replace('"schema_version": 1', '"schema_version": 99'), "utf-8")

    ended = doctor("compare", str(path), pair[0])

    assert ended.returncode == 2
    assert "newer profiler-doctor" in ended.stderr


def test_a_job_of_ranks_is_no_side(pair: tuple[str, str], tmp_path: Path) -> None:
    ended = doctor("compare", str(tmp_path), pair[0])

    assert ended.returncode == 2
    assert "holds 2 traces" in ended.stderr


def test_a_format_that_is_none_is_named(pair: tuple[str, str]) -> None:
    ended = doctor("compare", *pair, "--format", "xml")

    assert ended.returncode == 2
    assert "Choose from text, md, json, html" in ended.stderr
