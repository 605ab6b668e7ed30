"""`profiler-doctor check`: what it answers for a program that did not change, and for one that did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

SCRIPT = """
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(8, 4, 16, 16)
    work = lambda x: x * 2
    for step in range(60):
        optimizer.zero_grad()
        x = work(data)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
"""
SEEDS = {
    "an added op": ("x = work(data)", "x = work(data).relu()", {"ops"}),
    "a read of a scalar": ("loss.backward()", "loss.backward(); loss.item()", {"item_calls"}),
    "a copy": ("x = work(data)", "x = work(data).clone()", {"copied_bytes", "allocations"}),
    "another type": (
        "data = torch.randn(8",
        "model.double(); data = torch.randn(8",
        {"allocated_bytes", "operand_bytes"},
    ),
    "a change of layout": (
        "x = work(data)",
        "x = work(data).to(memory_format=torch.channels_last).contiguous()",
        {"layout_transforms"},
    ),
    "more memory": (
        "x = work(data)",
        "x = work(data); spare = torch.empty(1 << 20)",
        {"allocated_bytes", "peak_bytes"},
    ),
    "memory that stays": ("data = torch.randn(8", "spare = torch.zeros(1 << 20); data = torch.randn(8", {"live_bytes"}),
    "a break in the graph": (
        "work = lambda x: x * 2",
        "work = torch.compile(lambda x: (x * 2, torch._dynamo.graph_break())[0] + 0, backend='eager')",
        {"graph_breaks"},
    ),
}
EDITED_DATA = "torch.randn(8, 4, 16, 16, dtype=torch.double)"


def doctor(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, "-m", "profiler_doctor", "check", *words],
        cwd=folder,
        env={**known, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=280,
    )


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def worse(answer: subprocess.CompletedProcess[str]) -> set[str]:
    rows: list[dict[str, Any]] = json.loads(answer.stdout)["workloads"][0]["rows"]
    return {row["name"] for row in rows if row["status"] == "worse"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the script and its baseline, both committed."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(dedent(SCRIPT), encoding="utf-8")
    made = doctor(folder, "train.py", "--update", "--no-time")
    assert made.returncode == 0, made.stderr
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def changed(project: Path) -> Any:
    """Edits the script, and puts it back."""
    script = project / "train.py"
    original = script.read_text(encoding="utf-8")

    def edit(old: str, new: str) -> None:
        assert old in original
        text = original.replace(old, new)
        script.write_text(text.replace("torch.randn(8, 4, 16, 16)", EDITED_DATA) if "double" in new else text)

    yield edit
    script.write_text(original, encoding="utf-8")


def test_the_baseline_is_the_one_file_that_git_sees(project: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=project, capture_output=True, text=True, check=True).stdout.split()

    assert listed == [".profiler-doctor/baseline.json", "train.py"]


@pytest.mark.slow
def test_a_program_that_did_not_change_passes_and_nothing_is_written(project: Path) -> None:
    before = (project / ".profiler-doctor" / "baseline.json").read_bytes()

    answer = doctor(project, "train.py", "--no-time")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "No regression" in answer.stdout
    assert (project / ".profiler-doctor" / "baseline.json").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_counters_catch(project: Path, changed: Any, seed: str) -> None:
    old, new, expected = SEEDS[seed]
    changed(old, new)

    answer = doctor(project, "train.py", "--no-time", "--format", "json")

    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert expected <= worse(answer)


@pytest.mark.slow
def test_against_a_revision_the_new_line_is_named_and_no_worktree_is_left(project: Path, changed: Any) -> None:
    changed("x = work(data)", "x = work(data) + 1")

    answer = doctor(project, "train.py", "--base", "HEAD", "--no-time", "--format", "json")

    assert answer.returncode == 1, answer.stdout + answer.stderr
    place = json.loads(answer.stdout)["workloads"][0]["places"][0]
    assert (place["file"], place["line"], place["code"]) == ("train.py", 13, "x = work(data) + 1")
    assert "add" in place["ops"]
    trees = subprocess.run(["git", "worktree", "list"], cwd=project, capture_output=True, text=True, check=True).stdout
    assert len(trees.splitlines()) == 1


@pytest.mark.slow
def test_budgets_hold_without_a_baseline_and_a_summary_is_written(project: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((project / "train.py").read_text("utf-8"), "utf-8")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.profiler-doctor.check]\nmax_ops = 5\n[tool.profiler-doctor.check.workloads.it]\nscript = 'train.py'\n"
    )
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_ACTIONS": "true"}

    answer = doctor(tmp_path, "--out", "reports", **summary)

    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "max_ops = 5: BROKEN" in answer.stdout
    assert "::error title=performance check::it: max_ops is broken" in answer.stdout
    assert "There is no baseline" in answer.stdout
    assert "**broken**" in (tmp_path / "summary.md").read_text("utf-8")
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == [
        "check.json",
        "check.junit.xml",
        "check.md",
        "check.sarif",
        "check.txt",
    ]


def test_a_missing_baseline_cannot_be_compared_with_and_strict_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass", encoding="utf-8")

    answer, strict = doctor(tmp_path, "train.py"), doctor(tmp_path, "train.py", "--strict")

    assert (answer.returncode, strict.returncode) == (3, 1)
    assert answer.stdout.startswith("Nothing was compared: There is no baseline")


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("{", 2, "is not JSON"),
        ('{"schema_version": 0}', 3, "an older profiler-doctor"),
        ('{"schema_version": 1, "workloads": {}}', 3, "nothing about the workload 'train'"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_left_as_it_is(tmp_path: Path, content: str, code: int, words: str) -> None:
    (tmp_path / "train.py").write_text("pass", encoding="utf-8")
    path = tmp_path / ".profiler-doctor" / "baseline.json"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")

    answer = doctor(tmp_path, "train.py")

    assert answer.returncode == code
    assert words in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.slow
def test_on_another_machine_counters_are_compared_and_time_is_not(project: Path, tmp_path: Path) -> None:
    stored = json.loads((project / ".profiler-doctor" / "baseline.json").read_text("utf-8"))
    stored["workloads"]["train"]["circumstances"]["cpu"] = "Another One"
    stored["workloads"]["train"]["time"] = {"step_ns": [1], "cpu_ns": [1], "machine_ns": 1}
    (tmp_path / "elsewhere.json").write_text(json.dumps(stored), encoding="utf-8")

    answer = doctor(project, "train.py", "--baseline", str(tmp_path / "elsewhere.json"))

    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert "the cpu was Another One and is" in answer.stdout
    assert "worse" not in answer.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.py", "--base", "HEAD"), "There is no file 'missing.py'"),
        ((), "Name the script to check"),
        (("--workload", "x"), "There is no workload 'x'"),
        (("train.py", "--format", "xml"), "Choose from text, json, md"),
        (("train.py", "--time", "soon"), "--time must be a share"),
        (("train.py", "--base", "nothing"), "no git repository"),
        (("train.py", "--base", "HEAD", "--update"), "--base and --update exclude each other"),
        (("train.py", "--base", "HEAD", "--baseline", "b.json"), "--base and --baseline exclude each other"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "train.py").write_text("pass", encoding="utf-8")

    answer = doctor(tmp_path, *words, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))

    assert (answer.returncode, answer.stdout) == (2, "")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_script_that_fails_is_no_regression(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('before'); raise ValueError('mine')", encoding="utf-8")

    answer = doctor(tmp_path, "train.py", "--update")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert "train.py ended with exit status 1" in answer.stderr
    assert "ValueError: mine" in answer.stderr
    assert not (tmp_path / ".profiler-doctor" / "baseline.json").exists()
