"""The `[tool.profiler-doctor.check]` table: what it may hold, and the sentence for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.settings import BadSettings
from profiler_doctor.analyzer.workloads import TIME, workloads

HEAD = "[tool.profiler-doctor.check]\n"


def settings(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(HEAD + text, encoding="utf-8")
    return folder


def test_without_settings_there_is_one_nameless_workload(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.profiler-doctor]\n", encoding="utf-8")

    common, named = workloads(tmp_path)

    assert (common.time, common.limits, named) == (TIME, {}, ())


def test_budgets_shares_and_codes_are_read(tmp_path: Path) -> None:
    text = 'max_launches = 250\nmax_peak_bytes = "1.5 GB"\nforbid = ["SYN001"]\ntime = "5%"\n'

    common, _ = workloads(settings(tmp_path, text + 'tolerance = {allocated_bytes = "1%"}\n'))

    assert common.limits == {"launches": 250, "peak_bytes": 1.5e9}
    assert (common.forbid, common.time, common.tolerance) == (("SYN001",), 0.05, {"allocated_bytes": 0.01})


def test_a_workload_has_what_holds_for_all_and_its_own(tmp_path: Path) -> None:
    text = """max_ops = 10
    time = false
    [tool.profiler-doctor.check.workloads.train]
    script = "train.py"
    arguments = ["--small"]
    max_casts = 2
    [tool.profiler-doctor.check.workloads.serve]
    module = "app.serve"
    max_ops = 99
    """

    _, (serve, train) = workloads(settings(tmp_path, text))

    assert (serve.name, serve.module, serve.limits, serve.time) == ("serve", "app.serve", {"ops": 99}, None)
    assert (train.script, train.arguments, train.limits) == ("train.py", ("--small",), {"ops": 10, "casts": 2})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_ops = true", "max_ops must be a number"),
        ('max_ops = "many"', "max_ops must be a number"),
        ('time = "fast"', "time must be a share"),
        ("time = -1", "time must be a share"),
        ('forbid = "SYN001"', "forbid must be a list of strings"),
        ("windows = 1", "windows must be 2 or more"),
        ("window = 3", "window is not known"),
        ("tolerance = 5", "tolerance must be a table"),
        ("workloads = 5", "must hold a table for each workload"),
        ("[tool.profiler-doctor.check.workloads.a]\ntime = 0.1", "needs a script or a module"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadSettings, match=words) as told:
        workloads(settings(tmp_path, text))

    assert "pyproject.toml" in str(told.value)
