"""The fixture for pytest: a test that passes while a script does no more than agreed, and fails with the line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
for step in range(30):
    y = model(torch.ones(4, 8))
"""
TEST = """
def test_speed(profiler_doctor):
    profiler_doctor.check("train.py"{})
"""


def run(folder: Path, *options: str, budgets: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TEST.format(budgets), encoding="utf-8")
    (folder / "pytest.ini").touch()
    plugin = [] if _installed() else ["-p", "profiler_doctor.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *plugin, *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False, timeout=280)


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == "profiler-doctor" for point in entry_points(group="pytest11"))


def test_loading_the_plugin_imports_nothing_of_weight() -> None:
    code = "import sys, profiler_doctor.pytest_plugin; print(*{'numpy','pandas','torch','msgspec'} & set(sys.modules))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)

    assert loaded.stdout.strip() == ""


def test_without_a_baseline_the_test_is_skipped_and_strict_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")

    skipped, strict = run(tmp_path), run(tmp_path, "--profiler-doctor-strict")

    assert (skipped.returncode, strict.returncode) == (0, 1)
    assert "There is no baseline" in skipped.stdout
    assert "There is no baseline" in strict.stdout


@pytest.mark.slow
def test_a_test_fails_when_the_script_does_more_and_names_the_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert run(tmp_path, "--profiler-doctor-update").returncode == 0
    script.write_text(SCRIPT.replace("4, 8))", "4, 8)).relu()"), encoding="utf-8")

    failed = run(tmp_path)

    assert failed.returncode == 1
    assert "ops " in failed.stdout
    assert "train.py:6: y = model(torch.ones(4, 8)).relu()" in failed.stdout


@pytest.mark.slow
def test_budgets_of_the_test_itself_are_kept_or_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")

    failed = run(tmp_path, "--profiler-doctor-update", budgets=', max_ops=1, max_opps=5, forbid=["XXX001"]')

    assert failed.returncode == 1
    assert "max_ops = 1 is broken: it is" in failed.stdout
    assert "max_opps is no budget" in failed.stdout
    assert "XXX001" not in failed.stdout.split("def test_speed")[-1].split("is broken")[-1]
