"""`profiler-doctor verify`: which fixes are meant, and what the exit code says of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_doctor.verbs.verify import BadFix, asked_for

SCRIPT = """
import sys, torch
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)]).eval()
with torch.inference_mode():
    for step in range(4000):
        net(torch.randn(64, 256))
        if len(sys.argv) > 1 and step == 40:
            raise SystemExit("it broke")
"""
HALVED = '''
"""Leave out every second layer: not the same model any more.

What it does: it leaves out half of the layers.
"""
import contextlib
import torch
from profiler_doctor.analyzer.kinds import Fix

@contextlib.contextmanager
def treat(root):
    yield torch.nn.Sequential(*list(root.module)[::2])

FIX = Fix(name="half", doc=__doc__, cures=(), snippet="pass", changes_numbers="", rank=1, treat=treat)
'''
AS_FAST = '''
"""Call the layers one by one while the untreated program sleeps."""
import contextlib
from profiler_doctor.analyzer.kinds import Fix

@contextlib.contextmanager
def awake(machine):
    import time
    sleep = time.sleep
    time.sleep = lambda seconds: None
    try:
        yield
    finally:
        time.sleep = sleep

FIX = Fix(name="awake", doc=__doc__, cures=(), snippet="pass", changes_numbers="", rank=1, clock="wall", set_up=awake)
'''
SLEEPER = """
import time, torch
torch.set_num_threads(1)
net = torch.nn.Linear(64, 64).eval()
with torch.inference_mode():
    for step in range(4000):
        net(torch.ones(8, 64))
        time.sleep(0.004)
"""


def test_a_name_that_nearly_exists_is_answered_with_the_one_that_does() -> None:
    with pytest.raises(BadFix, match=r"--fix chanels-last: there is no such fix\. Did you mean channels-last"):
        asked_for(["chanels-last"], [])


def test_several_names_may_be_given_at_once_and_each_counts_once() -> None:
    assert [fix.name for fix in asked_for(["compile,channels-last", "compile"], [])] == ["compile", "channels-last"]


def test_all_fixes_of_an_own_file_are_meant_unless_some_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HALVED + AS_FAST, encoding="utf-8")
    (tmp_path / "one.py").write_text(HALVED, encoding="utf-8")
    assert [fix.name for fix in asked_for([], [tmp_path / "one.py"])] == ["half"]
    assert [fix.name for fix in asked_for(["awake"], [tmp_path / "mine.py"])] == ["awake"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_module", "it does not load: ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = 1", "it defines no fix"),
        (HALVED.replace('"half"', '"compile"'), "a fix of ours is called 'compile' already"),
    ],
)
def test_a_file_that_gives_no_fix_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(BadFix, match=said):
        asked_for([], [tmp_path / "mine.py"])


def test_a_file_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(BadFix, match="there is no such file"):
        asked_for([], [Path("nowhere.py")])


def test_nothing_to_try_is_refused() -> None:
    with pytest.raises(BadFix, match="Name what to try"):
        asked_for([], [])


def _verify(folder: Path, *words: str, budget: str = "60") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler_doctor", "verify", "--quiet", "--budget", budget, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "own", "verdict", "code"), [(SCRIPT, HALVED, "rejected", 1), (SLEEPER, AS_FAST, "verified", 0)]
)
def test_an_own_fix_is_judged_and_the_exit_code_says_how(
    tmp_path: Path, script: str, own: str, verdict: str, code: int
) -> None:
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    (tmp_path / "mine.py").write_text(own, encoding="utf-8")

    budget = "150" if verdict == "verified" else "60"  # two other tests may run beside this one
    run = _verify(tmp_path, "--fix-file", "mine.py", "--format", "json", "script.py", budget=budget)

    document = json.loads(run.stdout)
    assert [trial["verdict"] for trial in document["trials"]] == [verdict]
    assert (run.returncode, document["verdict"]["exit_code"]) == (code, code)


@pytest.mark.slow
def test_a_script_that_fails_ends_in_2_and_a_fix_that_does_not_apply_in_3(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")

    assert _verify(tmp_path, "--fix", "compile", "script.py", "--", "break").returncode == 2
    unfit = _verify(tmp_path, "--fix", "channels-last", "script.py")

    assert unfit.returncode == 3
    assert "Not tried: channels-last: the model takes no 4-D input." in " ".join(unfit.stdout.split())
