"""Trials of real scripts in real processes: what they say, and that nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from profiler_doctor.analyzer.capture.launch import Target
from profiler_doctor.analyzer.capture.plan import StepSource
from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.trial import TrialProgress, TrialRequest, trials
from profiler_doctor.analyzer.trial_program import Program

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

MODEL = """
    import sys
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Model(torch.nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            for _ in range(300 if torch.is_grad_enabled() else 30):  # so that a cure shows on any machine
                torch.sin(x)
            return y


    model, x = Model(8, 8).eval(), torch.randn(4, 8)
"""
FIX_FILE = """
    from contextlib import contextmanager
    from profiler_doctor.analyzer.kinds import Fix

    @contextmanager
    def treat(root):
        import torch
        weight, bias = root.module.weight.detach().clone(), root.module.bias
        def call(x):
            with torch.no_grad():
                return torch.nn.functional.linear(x, weight, bias) + {added}
        yield call

    FIX = Fix(name="{name}", doc="", cures=(), snippet="", changes_numbers="", rank=3, treat=treat, freezes=True)
"""
MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True, training=False)


def _script(folder: Path, steps: str) -> Path:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(MODEL) + textwrap.dedent(steps), encoding="utf-8")
    return path


def _program(folder: Path, steps: str, **more: Any) -> Program:
    script = _script(folder, steps)
    logs = folder / "trials"
    logs.mkdir(exist_ok=True)
    source = StepSource(kind="module", words="calls of Model")
    return Program(target=Target(script=str(script)), folder=logs, source=source, machine=MACHINE, **more)


def _tried(program: Program, *names: str, budget_s: float = 60.0) -> list[Trial]:
    fixes = [fix for fix in find("profiler_doctor.fixes", Fix).items if fix.name in names]
    deadline_ns = time.monotonic_ns() + int(budget_s * 1e9)
    others = set(psutil.Process().children(recursive=True))
    found = list(trials(TrialRequest(program=program, deadline_ns=deadline_ns, budget_s=budget_s), fixes))
    assert set(psutil.Process().children(recursive=True)) <= others
    return found


def _third_party(folder: Path, name: str, added: float) -> tuple[Fix, dict[str, str]]:
    """A fix of somebody else's package: the fix, and the environment in which a child finds it."""
    package = folder / "theirs"
    info = package / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "their_fix.py").write_text(textwrap.dedent(FIX_FILE.format(name=name, added=added)), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[profiler_doctor.fixes]\nx = their_fix:FIX\n", encoding="utf-8")
    scope: dict[str, Any] = {}
    exec((package / "their_fix.py").read_text(encoding="utf-8"), scope)
    return scope["FIX"], {"PYTHONPATH": str(package)}


FOREVER = """
    while True:
        model(x)
"""


def test_a_real_gain_is_verified_and_the_placebo_is_not(tmp_path: Path) -> None:
    told: list[TrialProgress] = []
    program = _program(tmp_path, FOREVER)
    fixes = [fix for fix in find("profiler_doctor.fixes", Fix).items if fix.name in ("inference-mode", "do-nothing")]
    deadline_ns = time.monotonic_ns() + 90_000_000_000
    request = TrialRequest(program=program, deadline_ns=deadline_ns, progress=told.append)
    by_name = {trial.fix: trial for trial in trials(request, fixes)}
    assert set(by_name) == {"inference-mode", "do-nothing"}
    won = by_name["inference-mode"]
    assert (won.verdict, won.outputs_equal, won.error) == ("verified", True, 0.0)
    assert won.speedup is not None
    assert won.speedup > 3
    assert won.before_ns is not None
    assert won.after_ns is not None
    assert won.before_ns > won.after_ns
    assert by_name["do-nothing"].verdict in ("rejected", "inconclusive")
    assert {stand.fix for stand in told} == {"inference-mode", "do-nothing"}
    samples = json.loads((program.folder / "inference-mode.json").read_text(encoding="utf-8"))
    assert len(samples["sets"]) == 3
    assert all(len(one) >= 10 for one in samples["sets"])


def test_a_script_that_ends_early_is_started_again_and_its_samples_go_on(tmp_path: Path) -> None:
    program = _program(tmp_path, "for _ in range(60):\n    model(x)\nsys.exit(3)\n", usual_exit=3)
    (trial,) = _tried(program, "inference-mode", budget_s=150)
    assert trial.verdict == "verified"
    assert trial.changes[0].pairs >= 30


def test_a_treated_program_that_fails_is_rejected_with_its_last_line(tmp_path: Path) -> None:
    program = _program(tmp_path, "while True:\n    model(x).sum().backward()\n")
    (trial,) = _tried(program, "inference-mode")
    assert trial.verdict == "rejected"
    assert "does not require grad" in trial.reason
    assert "RuntimeError" in (program.folder / "inference-mode-1-treated.log").read_text(encoding="utf-8")


def test_an_untreated_program_that_fails_says_nothing_of_the_fix(tmp_path: Path) -> None:
    program = _program(tmp_path, "for _ in range(12):\n    model(x)\nraise ValueError('out of data')\n")
    (trial,) = _tried(program, "do-nothing")
    assert trial.verdict == "inconclusive"
    assert trial.reason == "the untreated program failed: ValueError: out of data"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    hangs = "import time\nmodel(x)\nmodel(x)\ntime.sleep(600)\n"
    (trial,) = _tried(_program(tmp_path, hangs, silence_s=3.0), "do-nothing")
    assert trial.verdict in ("inconclusive", "rejected")
    assert "no sign of progress for 3 s" in trial.reason


def test_a_script_with_too_few_steps_is_told_so(tmp_path: Path) -> None:
    (trial,) = _tried(_program(tmp_path, "model(x)\nmodel(x)\n"), "do-nothing")
    assert trial.verdict == "inconclusive"
    assert "the script makes only 2 steps" in trial.reason


def test_a_spent_budget_leaves_fixes_untried_and_starts_nothing(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = _tried(_program(tmp_path, FOREVER), "inference-mode", "compile", budget_s=5)
    assert [trial.verdict for trial in found] == ["not_tried", "not_tried"]
    assert found[0].reason.startswith("the budget of 5 s was spent")
    assert found[0].snippet
    assert time.monotonic() - begun < 5
    assert list((tmp_path / "trials").iterdir()) == []


def test_a_fix_that_does_not_apply_is_not_tried_and_says_why(tmp_path: Path) -> None:
    (trial,) = _tried(_program(tmp_path, FOREVER), "channels-last")
    assert (trial.verdict, trial.reason) == ("not_tried", "the model takes no 4-D input")


def test_a_fix_that_does_not_suit_the_model_is_not_tried_and_says_why(tmp_path: Path) -> None:
    (trial,) = _tried(_program(tmp_path, FOREVER), "fold-conv-bn")
    assert trial.verdict == "not_tried"
    assert trial.reason.startswith("no convolution can be folded")


def test_wrong_answers_are_rejected_before_any_time_is_spent_on_timing(tmp_path: Path) -> None:
    fix, environment = _third_party(tmp_path, "wrong", added=0.5)
    program = _program(tmp_path, FOREVER, environment=environment)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 60_000_000_000)
    (trial,) = trials(request, [fix])
    assert (trial.verdict, trial.outputs_equal) == ("rejected", False)
    assert "output differs by" in trial.reason
    assert trial.error is not None
    assert trial.error > 0.05
    assert trial.changes == ()


def test_frozen_weights_that_the_script_changes_later_are_rejected(tmp_path: Path) -> None:
    fix, environment = _third_party(tmp_path, "frozen", added=0.0)
    changing = """
        for number in range(100_000):
            model(x)
            if number > 60:
                model.weight.data.add_(0.001)
    """
    program = _program(tmp_path, changing, environment=environment)
    request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 60_000_000_000)
    (trial,) = trials(request, [fix])
    assert trial.verdict == "rejected"
    assert "weights change while the script runs" in trial.reason


def test_when_we_are_killed_both_sides_die_with_us(tmp_path: Path) -> None:
    script = _script(tmp_path, FOREVER)
    parent = f"""
        import time
        from pathlib import Path
        from profiler_doctor.analyzer.capture.launch import Target
        from profiler_doctor.analyzer.capture.plan import StepSource
        from profiler_doctor.analyzer.kinds import Machine
        from profiler_doctor.analyzer.trial import TrialRequest, trials
        from profiler_doctor.analyzer.trial_program import Program
        from profiler_doctor.fixes.do_nothing import FIX
        machine = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=1, has_root=True,
                          training=False)
        program = Program(target=Target(script={str(script)!r}), folder=Path({str(tmp_path)!r}), machine=machine,
                          source=StepSource(kind="module"))
        request = TrialRequest(program=program, deadline_ns=time.monotonic_ns() + 100_000_000_000,
                               progress=lambda stand: print(stand.pairs, flush=True))
        list(trials(request, [FIX]))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(parent)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != b"1":  # until the sides have taken their first turns
            assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert len(gone) >= 2
    assert alive == []
