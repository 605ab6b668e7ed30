"""A fix that crashes, hangs or eats the machine's memory ends as a failed trial, and the run goes on."""

from __future__ import annotations

import itertools
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from profiler_doctor.analyzer import trial_memory
from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.plugins import in_file
from profiler_doctor.analyzer.trial import TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)
SCRIPT = "import torch\nmodel, x = torch.nn.Linear(8, 8), torch.randn(4, 8)\nwhile True:\n    model(x)\n"
FIXES = """
    import os, signal, time
    from contextlib import contextmanager
    from profiler_doctor.analyzer.kinds import Fix

    @contextmanager
    def crash(root):
        def call(x):
            os.kill(os.getpid(), signal.SIGSEGV)
        yield call

    @contextmanager
    def eat(root):
        held = []
        def call(x):
            while len(held) < 40:  # 2 GB, where nobody stops it
                held.append(b"." * (50 << 20))
                time.sleep(0.05)
            return root.call(x)
        yield call

    @contextmanager
    def sleep(root):
        time.sleep(600)
        yield root.call

    @contextmanager
    def sleep_first(machine):
        time.sleep(600)
        yield

    @contextmanager
    def sleep_later(root):
        calls = []
        def call(x):
            calls.append(x)
            if len(calls) > 20:
                time.sleep(600)
            return root.call(x)
        yield call

    CRASHES = Fix(name="a-crash", doc="", cures=(), snippet="", changes_numbers="", rank=1, treat=crash)
    EATS = Fix(name="eater", doc="", cures=(), snippet="", changes_numbers="", rank=2, treat=eat)
    SLEEPS = Fix(name="sleeper", doc="", cures=(), snippet="", changes_numbers="", rank=3, treat=sleep)
    FIRST = Fix(name="sleeps-first", doc="", cures=(), snippet="", changes_numbers="", rank=3, set_up=sleep_first)
    LATER = Fix(name="sleeps-later", doc="", cures=(), snippet="", changes_numbers="", rank=3, treat=sleep_later)
    COMPILES = Fix(name="slow-compiler", doc="", cures=(), snippet="", changes_numbers="", rank=9, treat=sleep)
    GOOD = Fix(name="good", doc="", cures=(), snippet="", changes_numbers="", rank=8, environment=lambda machine: {})
"""


def _program(tmp_path: Path, budget_s: float = 120) -> tuple[Program, dict[str, Fix]]:
    script, file = tmp_path / "script.py", tmp_path / "mine.py"
    script.write_text(SCRIPT, encoding="utf-8")
    file.write_text(textwrap.dedent(FIXES), encoding="utf-8")
    program = Program(
        target=Target(script=str(script)),
        folder=tmp_path,
        source=StepSource(kind="module", words="calls"),
        machine=MACHINE,
        fix_files=(str(file),),
        budget_s=budget_s,
    )
    return program, {fix.name: fix for fix in in_file(file, Fix)}


def test_a_crash_and_a_hunger_for_memory_are_failed_trials_and_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_memory, "_spare", lambda: 1 << 30)
    program, known = _program(tmp_path)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 120_000_000_000)
    others = set(psutil.Process().children(recursive=True))
    crashed, hungry = trials(request, [known["a-crash"], known["eater"]])
    assert (crashed.fix, crashed.verdict) == ("a-crash", "rejected")
    assert crashed.reason == "the treated program failed: the process was ended by signal 11"
    assert (hungry.fix, hungry.verdict) == ("eater", "rejected")
    assert hungry.reason.startswith("the treated program failed: it took 1.")
    assert hungry.reason.endswith("GB of memory, more than the machine can spare")
    assert set(psutil.Process().children(recursive=True)) <= others


@pytest.mark.parametrize("name", ["sleeper", "sleeps-first", "sleeps-later"])
def test_a_fix_that_never_returns_is_a_failed_trial_and_the_next_one_is_made(name: str, tmp_path: Path) -> None:
    program, known = _program(tmp_path, budget_s=20)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 60_000_000_000)
    others = set(psutil.Process().children(recursive=True))
    hung, good = itertools.islice(trials(request, [known[name], known["good"]]), 2)
    assert (hung.fix, hung.verdict) == (name, "rejected"), hung.reason
    assert hung.reason.startswith("the treated program failed: it gave no sign of progress for")
    assert good.fix == "good"
    assert good.changes  # it was measured
    assert set(psutil.Process().children(recursive=True)) <= others


def test_a_compiler_that_is_silent_until_its_time_is_over_is_no_failure(tmp_path: Path) -> None:
    program, known = _program(tmp_path, budget_s=120)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 15_000_000_000)
    (trial,) = trials(request, [known["slow-compiler"]])
    assert trial.verdict == "inconclusive"
    assert "the treated program had given no sign of progress for" in trial.reason
