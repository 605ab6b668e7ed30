"""The workflow and the hook in docs/ci, run as their shell steps: what stands there must work as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")
SCRIPT = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
for step in range(100000):
    y = model(torch.ones(32, 64))
"""


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / "docs" / "ci" / name).read_text(encoding="utf-8"))


def step(name: str) -> Mapping[str, Any]:
    steps: list[dict[str, Any]] = loaded("performance.yml")["jobs"]["check"]["steps"]
    return next(each for each in steps if each.get("name") == name)


def shell(folder: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step: bash, ending at the first command that fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**kept, "PATH": path, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=280,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    return tmp_path


def check(project: Path) -> subprocess.CompletedProcess[str]:
    """The step of the workflow, with what GitHub would set; a shorter budget than a job has."""
    command = step("Check")["run"].replace("--out performance", "--out performance --budget 60")
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(project / "summary.md")}
    return shell(project, command, BASE="HEAD", SCRIPT=step("Check")["env"]["SCRIPT"], **github)


@pytest.mark.slow
def test_the_workflow_fails_a_pull_request_that_does_more_and_annotates_its_line(project: Path) -> None:
    (project / "train.py").write_text(SCRIPT.replace("32, 64))", "32, 64)).relu()"), encoding="utf-8")

    done = check(project)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error file=train.py,line=6,title=performance check::train: ops" in done.stdout
    assert "train.py:6" in (project / "summary.md").read_text("utf-8").replace("\\", "")
    assert (project / "performance" / "check.sarif").exists()


@pytest.mark.slow
def test_the_workflow_passes_a_pull_request_that_changes_nothing(project: Path) -> None:
    done = check(project)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "::error" not in done.stdout


@pytest.mark.slow
def test_the_hook_fails_without_a_baseline_and_passes_with_one(project: Path) -> None:
    hook = loaded("pre-commit.yaml")["repos"][0]["hooks"][0]["entry"]

    before = shell(project, hook)
    assert shell(project, f"{hook} --update").returncode == 0
    after = shell(project, hook)

    assert (before.returncode, after.returncode) == (3, 0), after.stdout + after.stderr


def test_the_workflow_takes_the_base_of_the_pull_request_with_its_history() -> None:
    steps = loaded("performance.yml")["jobs"]["check"]["steps"]

    assert steps[0]["with"]["fetch-depth"] == 0
    assert "base.sha" in step("Check")["env"]["BASE"]
