"""`profiler-doctor report` and `env`: what was found, again; and what this machine can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.trace_builder import TraceBuilder


def doctor(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler_doctor", *words]
    surroundings = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=surroundings)


def analyzed(folder: Path) -> Path:
    trace = TraceBuilder().op("aten::mm", 0, 100).op("aten::add", 200, 50).write(folder, "trace.json")
    assert doctor("analyze", str(trace), "--out", str(folder / "run")).returncode == 0
    return folder / "run"


def test_the_reports_come_out_of_the_document_as_they_came_out_of_the_trace(tmp_path: Path) -> None:
    run = analyzed(tmp_path)

    again = doctor("report", str(run), "--out", str(tmp_path / "again"))

    assert (again.returncode, again.stderr) == (0, "")
    for name in ("report.md", "diagnosis.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    page, first = ((folder / "report.html").read_text("utf-8") for folder in (tmp_path / "again", run))
    assert "trace-with-findings.json.gz" in first
    assert page == "".join(line for line in first.splitlines(keepends=True) if "trace-with-findings" not in line)
    assert (
        doctor("report", str(run / "diagnosis.json"), "--format", "json").stdout == (run / "diagnosis.json").read_text()
    )


def test_what_is_no_document_is_a_sentence(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 100).write(tmp_path, "trace.json")

    ended = doctor("report", str(trace))
    needs_the_trace = doctor("report", str(analyzed(tmp_path)), "--format", "trace")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "use `profiler-doctor analyze` for it" in ended.stderr
    assert (needs_the_trace.returncode, needs_the_trace.stdout) == (2, "")
    assert "needs the trace" in needs_the_trace.stderr


def test_the_self_check_names_what_gets_into_the_way() -> None:
    plain = json.loads(doctor("env", "--format", "json", CUDA_LAUNCH_BLOCKING="").stdout)
    hindered = json.loads(doctor("env", "--format", "json", CUDA_LAUNCH_BLOCKING="1").stdout)

    assert plain["cpu"]["usable"] >= 1
    assert plain["torch"]["tick_ns"] > 0
    assert not any("CUDA_LAUNCH_BLOCKING" in doubt for doubt in plain["doubts"])
    assert any("CUDA_LAUNCH_BLOCKING=1 is set" in doubt for doubt in hindered["doubts"])


def test_without_torch_the_self_check_says_so_and_ends_with_two(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")

    ended = doctor("env", PYTHONPATH=str(tmp_path))

    assert ended.returncode == 2
    assert "torch cannot be used (OSError: libcudart.so.12: cannot open shared object file)" in ended.stdout
