"""A fix that crashes the program or eats the machine's memory ends as a failed trial, and the run goes on."""

from __future__ import annotations

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
from profiler_doctor.analyzer.trial_arm import Program

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

    CRASHES = Fix(name="a-crash", doc="", cures=(), snippet="", changes_numbers="", rank=1, treat=crash)
    EATS = Fix(name="eater", doc="", cures=(), snippet="", changes_numbers="", rank=2, treat=eat)
"""


def test_a_crash_and_a_hunger_for_memory_are_failed_trials_and_the_next_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, file = tmp_path / "script.py", tmp_path / "mine.py"
    script.write_text(SCRIPT, encoding="utf-8")
    file.write_text(textwrap.dedent(FIXES), encoding="utf-8")
    monkeypatch.setattr(trial_memory, "_spare", lambda: 1 << 30)
    source, files = StepSource(kind="module", words="calls"), (str(file),)
    program = Program(
        target=Target(script=str(script)), folder=tmp_path, source=source, machine=MACHINE, fix_files=files
    )
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 120_000_000_000)
    others = set(psutil.Process().children(recursive=True))
    crashed, hungry = trials(request, in_file(file, Fix))
    assert (crashed.fix, crashed.verdict) == ("a-crash", "rejected")
    assert crashed.reason == "the treated program failed: the process was ended by signal 11"
    assert (hungry.fix, hungry.verdict) == ("eater", "rejected")
    assert hungry.reason.startswith("the treated program failed: it took 1.")
    assert hungry.reason.endswith("GB of memory, more than the machine can spare")
    assert set(psutil.Process().children(recursive=True)) <= others
