"""`profiler-doctor run` from end to end on small programs: streams, exit codes, the files, and being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.plan import Plan
from tests.conftest import ROOT

SCRIPT = """
import sys, torch
torch.set_num_threads(1)
print("hello from the script", sys.argv[1:])
net = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(8)]).eval()
with torch.inference_mode():
    for _ in range(600):
        net(torch.randn(64, 128))
print("goodbye from the script", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
pytestmark = pytest.mark.slow


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "profiler_doctor", "run", *words]


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(*words), cwd=folder, capture_output=True, text=True, timeout=400, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_a_placebo_is_not_verified_and_the_document_is_whole(script: Path) -> None:
    run = _run(script.parent, "--format", "json", "--try", "do-nothing", "--budget", "90", "small.py", "--", "0")

    document = json.loads(run.stdout)
    schema = json.loads((ROOT / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert run.returncode == 0
    assert "hello from the script ['0']" in run.stderr
    assert "goodbye from the script" in run.stderr
    assert document["capture"]["script_exit"] in (0, None)
    assert document["totals"]["step_ns"]["median"] > 0
    assert [(trial["fix"], trial["verdict"] == "verified") for trial in document["trials"]] == [("do-nothing", False)]
    assert {path.name for path in (script.parent / ".profiler-doctor" / "latest").iterdir()} >= {
        "diagnosis.json",
        "report.html",
        "report.md",
        "trace.json.gz",
        "trace-with-findings.json.gz",
        "environment.json",
    }


def test_the_scripts_own_exit_status_is_kept_and_ours_is_2(script: Path) -> None:
    run = _run(script.parent, "--no-verify", "small.py", "--", "3")

    document = json.loads((script.parent / ".profiler-doctor" / "latest" / "diagnosis.json").read_text())
    assert run.returncode == 2
    assert run.stdout.startswith("hello from the script ['3']\n")
    assert document["capture"]["script_exit"] == 3
    assert document["verdict"]["exit_code"] == 2
    assert "ended with exit status 3" in " ".join(note["message"] for note in document["health"])


def test_a_script_that_breaks_at_line_1_shows_its_own_traceback_and_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module_at_all\n", encoding="utf-8")

    plain = subprocess.run([sys.executable, "broken.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    run = _run(tmp_path, "--quiet", "broken.py")

    assert run.returncode == 2
    assert plain.stderr in run.stderr
    assert len(run.stderr.replace(plain.stderr, "").strip().splitlines()) == 1
    assert run.stdout == ""


def _children(process: psutil.Process) -> Iterator[dict[str, Any]]:
    for child in process.children(recursive=True):
        yield child.as_dict(["pid", "name"])


@pytest.mark.parametrize("phase", ["watching the script", "finding the lines", "trying do-nothing"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_killed_in_any_phase_it_leaves_no_child_and_nothing_half_written(
    script: Path, phase: str, number: signal.Signals
) -> None:
    words = ("--try", "do-nothing", "--budget", "60", "small.py", "--", "0")
    doctor = subprocess.Popen(
        _command(*words), cwd=script.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert doctor.stderr is not None
    for line in doctor.stderr:
        if phase in line:
            break
    else:
        pytest.fail(f"the phase {phase!r} was never said")
    time.sleep(0.5)
    children = [child["pid"] for child in _children(psutil.Process(doctor.pid))]

    doctor.send_signal(number)
    doctor.communicate(timeout=30)

    assert children
    assert doctor.returncode != 0
    assert [pid for pid in children if psutil.pid_exists(pid) and _alive(pid)] == []
    assert [path for path in script.parent.rglob("*") if ".part" in path.name or path.suffix == ".tmp"] == []


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_kill_dash_nine_leaves_no_child_either(script: Path) -> None:
    doctor = subprocess.Popen(
        _command("--no-verify", "small.py", "--", "0"), cwd=script.parent, stderr=subprocess.PIPE, text=True
    )
    assert doctor.stderr is not None
    next(line for line in doctor.stderr if "watching the script" in line)
    time.sleep(1.0)
    children = [child["pid"] for child in _children(psutil.Process(doctor.pid))]

    os.kill(doctor.pid, signal.SIGKILL)
    doctor.wait(timeout=10)
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) and _alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert children
    assert [pid for pid in children if psutil.pid_exists(pid) and _alive(pid)] == []


def test_a_signal_that_leaves_the_lock_of_subprocess_taken_does_not_hang_the_end(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    child = launch.start(
        launch.Target(script=str(tmp_path / "sleeper.py")),
        Plan(mode="observe", folder=str(tmp_path)),
        launch.Wiring(log=tmp_path / "log.txt"),
    )
    child.process._waitpid_lock.acquire()  # what an exception inside of poll() leaves behind

    started = time.monotonic()
    child.end(grace_s=0.5)

    assert not psutil.pid_exists(child.process.pid)
    assert time.monotonic() - started < 60
