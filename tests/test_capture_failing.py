"""Scripts that come to nothing: a sentence each, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.errors import ExitCode, ScriptFailed, UserError
from tests.watched import WATCH, alive, recorded, write


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("raise ValueError('line 1')", r"script.py ended with exit status 1 before it imported torch"),
        ("print('hello')", r"script.py ended without importing torch"),
        ("import torch\nraise SystemExit(4)", r"ended with exit status 4 before anything was recorded"),
        ("import torch, os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", r"was killed by SIGSEGV"),
        ("import torch", r"imported torch but ran no torch operation"),
    ],
)
def test_a_script_that_gives_nothing_to_diagnose_gets_a_sentence_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScriptFailed, match=sentence) as failed:
        recorded(write(tmp_path, script))
    assert failed.value.exit_code == ExitCode.UNUSABLE
    assert [path.name for path in (tmp_path / ".profiler-doctor").iterdir()] == [".gitignore"]


def test_a_script_that_is_not_there_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"There is no file 'absent\.py'"):
        recorded("absent.py")
    assert list(tmp_path.iterdir()) == []
    assert Target(module="package.tool", arguments=("-x",)).command == ("-m", "package.tool", "-x")


def test_a_script_that_hangs_before_its_first_step_is_ended_with_all_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = f"sleeper-{os.getpid()}-{time.time_ns()}"
    script = f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}])
        while True:
            time.sleep(600)
    """
    with pytest.raises(ScriptFailed, match=r"gave no sign of progress for 2 s \(--timeout\)"):
        recorded(write(tmp_path, script), timeout_s=2.0)
    assert alive(mark) == []


def test_what_a_script_that_ignores_our_signal_starts_meanwhile_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = f"late-{os.getpid()}-{time.time_ns()}"
    script = f"""
        import signal, subprocess, sys, time
        def start(*_):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}])
        signal.signal(signal.SIGTERM, start)
        while True:
            time.sleep(600)
    """
    with pytest.raises(ScriptFailed, match="gave no sign of progress"):
        recorded(write(tmp_path, script), timeout_s=2.0)
    assert alive(mark) == []


HANGS_AFTER = """
    import time
    import torch

    net = torch.nn.Linear(2, 2)
    try:
        for _ in range(30):
            net(torch.ones(1, 2))
        time.sleep(600)
    finally:
        print("left in order")
"""


@pytest.mark.slow
def test_what_was_recorded_before_a_script_hangs_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    captured = recorded(write(tmp_path, HANGS_AFTER), timeout_s=20.0)
    assert captured.trace_file is not None
    assert captured.script_exit is None
    assert "The script gave no sign of progress for 20 s and was ended." in captured.facts.cut
    assert "left in order" in capfd.readouterr().out


ENDLESS = """
    import time
    import torch

    net = torch.nn.Linear(2, 2)
    try:
        while True:
            try:
                net(torch.ones(1, 2))
                time.sleep(0.005)
            except Exception as error:
                print("an exception of ours", error)
    finally:
        print("left in order")
"""


@pytest.mark.slow
def test_an_endless_script_is_left_at_a_step_when_its_share_of_the_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    captured = recorded(write(tmp_path, ENDLESS), budget_s=60.0)
    assert captured.recorded_steps == 5
    assert captured.script_exit is None
    assert captured.known_steps == 0
    assert any(re.match(r"The script was ended after \d+ s, its share of the 60 s", cut) for cut in captured.facts.cut)
    assert capfd.readouterr().out == "left in order\n"


PHASES = {
    "before torch": "import time; print('now', flush=True); time.sleep(600)",
    "at a step": """
        import time, torch
        net = torch.nn.Linear(2, 2)
        while True:
            net(torch.ones(1, 2))
            if time.process_time() > 1: print('now', flush=True)
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("phase", list(PHASES))
def test_whoever_ends_us_ends_the_script_and_finds_no_half_written_file(
    tmp_path: Path, phase: str, number: signal.Signals
) -> None:
    name = f"phase_{os.getpid()}_{time.time_ns()}.py"
    write(tmp_path, PHASES[phase], name)
    with subprocess.Popen(
        [sys.executable, "-c", WATCH, name],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.send_signal(number)
        process.wait(timeout=60)
    deadline_s = time.monotonic() + 20
    while (left := alive(name)) and time.monotonic() < deadline_s:
        os.sched_yield()
    assert left == []
    if number is not signal.SIGKILL:  # then nobody is there to clean up
        assert not [path for path in (tmp_path / ".profiler-doctor").rglob("*") if ".part" in path.name]
