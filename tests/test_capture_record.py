"""What recording a script gives: the trace, the facts, the folder."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from profiler_doctor.analyzer.capture import record
from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.environment import machine
from profiler_doctor.analyzer.capture.launch import Target
from tests.watched import events, ranges, recorded, run, write

TRAINING = """
    import nvtx
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x)  # line 11

    encoder, decoder = Encoder(), torch.nn.Linear(4, 2).half().float()
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    loss_of = torch.nn.MSELoss()
    for _ in range(60):
        torch.set_num_threads(3)
        with torch.autograd.set_detect_anomaly(True), torch.cuda.nvtx.range("user cuda range"):
            for _ in range(2):
                with nvtx.annotate("user annotation"):
                    loss_of(decoder(encoder(torch.randn(8, 4).t().contiguous().t())), torch.zeros(8, 2)).backward()
        nvtx.push_range("user push")
        optimizer.step()
        nvtx.pop_range()
        optimizer.zero_grad()
        torch.set_num_threads(1)
    print("trained")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="module")
def training(folder: Path) -> Captured:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OMP_PROC_BIND", "false")
        return recorded(write(folder, TRAINING, "train.py"), stacks=True)


def test_steps_are_the_optimizers_and_roots_are_told_by_name(training: Captured) -> None:
    facts = training.facts
    assert facts.step_source == "optimizer.step of SGD"
    assert [root.name for root in facts.roots] == ["Encoder", "Linear"]
    assert facts.roots[0].calls == facts.roots[1].calls >= 20
    assert facts.optimizer_steps == 60
    assert training.known_steps == 60
    assert training.script_exit == 0


def test_what_is_in_force_during_a_step_is_seen_even_if_it_is_undone_in_the_step(training: Captured) -> None:
    facts = training.facts
    assert facts.debug_modes == ("autograd anomaly mode",)
    assert facts.threads == 3
    assert facts.environment["OMP_PROC_BIND"] == "false"
    root = facts.roots[0]
    assert (root.training, root.grad_enabled, root.output_requires_grad, root.autocast) == (True, True, True, None)
    assert (root.parameter_bytes, root.parameter_dtypes, root.input_ranks) == (4 * (16 + 4), ("float32",), (2,))
    assert root.signatures == ("8x4",)
    assert not root.compiled
    assert facts.backward_calls >= 20


def test_steps_are_timed_without_the_profiler_before_and_after_the_recorded_ones(training: Captured) -> None:
    facts = training.facts
    assert len(facts.profiled_step_ns) == training.recorded_steps == 5
    assert len(facts.step_ns) == len(facts.step_cpu_ns) >= 30
    assert facts.cold_step_ns is not None
    assert facts.cold_step_ns > 0
    assert training.overhead == pytest.approx(median(facts.profiled_step_ns) / median(facts.step_ns))
    assert facts.copy_bytes_per_s is not None
    assert facts.copy_bytes_per_s > 1e8
    assert {f"{name} {kind}" for name in ("exp", "tanh", "erf") for kind in ("float", "double")} == {*facts.function_ns}
    assert facts.function_ns["tanh float"] > 0


def test_the_trace_holds_five_whole_steps_and_the_scripts_own_ranges(training: Captured) -> None:
    assert training.trace_file is not None
    found = ranges(training.trace_file)
    assert {name: count for name, count in found.items() if name.startswith("user ")} == {
        "user cuda range": 5,
        "user annotation": 10,
        "user push": 5,
    }
    steps = [event for event in events(training.trace_file) if event["name"].startswith("ProfilerStep#")]
    numbers = [int(step["name"].partition("#")[2]) for step in steps]
    assert numbers == list(range(numbers[0], numbers[0] + 5))
    assert found["unfinished step"] == 0
    ends = [step["ts"] + step["dur"] for step in steps]
    assert all(end <= later["ts"] for end, later in zip(ends, steps[1:], strict=False))


def test_ops_carry_shapes_and_strides(training: Captured) -> None:
    assert training.trace_file is not None
    linear = [event["args"] for event in events(training.trace_file) if event["name"] == "aten::linear"]
    assert len(linear) == 20  # 5 steps of 2 micro-batches through 2 modules
    assert linear[0]["Input Dims"][0] == [8, 4]
    assert linear[0]["Input Strides"][0] == [1, 8]


def test_the_pass_with_stacks_holds_the_same_ops_and_the_scripts_lines(training: Captured) -> None:
    assert training.trace_file is not None
    assert training.stacks_file is not None
    per_step = []
    for file in (training.trace_file, training.stacks_file):
        found = events(file)
        step = [event for event in found if event["name"].startswith("ProfilerStep#")][1]
        ops = [event for event in found if event.get("cat") == "cpu_op" and event["tid"] == step["tid"]]
        inside = [op for op in ops if step["ts"] <= op["ts"] < step["ts"] + step["dur"]]
        per_step.append([op["name"] for op in sorted(inside, key=lambda op: (op["ts"], -op["dur"]))])
    assert per_step[0] == per_step[1]
    frames = {event["name"] for event in events(training.stacks_file) if event.get("cat") == "python_function"}
    assert any("train.py(10): forward" in frame for frame in frames)


def test_the_folder_holds_it_all_and_nothing_else_was_written(training: Captured, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [".profiler-doctor", "train.py"]
    assert sorted(path.name for path in training.folder.iterdir()) == [
        "environment.json",
        "facts.json",
        "stacks.json.gz",
        "trace.json.gz",
    ]
    assert (folder / ".profiler-doctor" / "latest").resolve() == training.folder.resolve()
    known = json.loads((training.folder / "environment.json").read_text())
    assert known["command"] == ["python", "train.py"]
    assert known["cpu"]["usable"] >= 1
    assert known["threads"] == 3
    assert known["git"] is None or known["git"]["commit"]


def test_a_fix_is_told_the_machine_and_the_document_the_capture(training: Captured) -> None:
    asked = machine(training.facts)
    assert (asked.device, asked.threads, asked.has_root, asked.training) == ("cpu", 3, True, True)
    assert asked.input_ranks == {2}
    summary = training.summary()
    assert summary.roots["Encoder"] == training.facts.roots[0].calls
    assert (summary.recorded_steps, summary.timed_steps) == (5, len(training.facts.step_ns))
    assert summary.cut == ()


def test_a_script_without_modules_gives_a_window_and_no_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    captured = recorded(write(tmp_path, "import torch\nfor _ in range(30): torch.ones(8, 8) @ torch.ones(8, 8)\n"))
    assert captured.trace_file is not None
    assert sum(event["name"] == "aten::mm" for event in events(captured.trace_file)) == 30
    assert (captured.source, captured.recorded_steps, captured.facts.step_source) == (None, 0, "")
    assert captured.facts.step_ns == ()
    assert not machine(captured.facts).has_root


def test_a_script_with_three_steps_is_run_again_to_record_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "import torch\nnet = torch.nn.Linear(2, 2)\nfor _ in range(3): net(torch.ones(1, 2))\n"
    captured = recorded(write(tmp_path, script))
    assert captured.trace_file is not None
    assert ranges(captured.trace_file)["ProfilerStep#1"] == 1
    assert (captured.recorded_steps, captured.known_steps) == (1, 3)
    assert "The script makes 3 steps, so it was run a second time to record them." in captured.facts.cut


OWN_PROFILER = """
    import torch

    net = torch.nn.Linear(2, 2)
    for _ in range(25):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            net(torch.ones(1, 2))
        assert any(event.key == "aten::linear" for event in profiler.key_averages())
    print("theirs was whole")
"""


def test_a_script_keeps_its_own_profiler_and_we_say_that_we_recorded_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    captured = recorded(write(tmp_path, OWN_PROFILER))
    assert "theirs was whole" in capfd.readouterr().out
    assert captured.trace_file is None
    assert captured.facts.own_profiler
    assert len(captured.facts.step_ns) > 10
    assert captured.facts.debug_modes == ()
    assert any("a torch profiler of its own" in sentence for sentence in captured.facts.cut)


def test_the_scripts_output_goes_to_standard_error_where_ours_is_a_document(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n")
    code = """
from profiler_doctor.analyzer.capture.launch import Target, Wiring, start
from profiler_doctor.analyzer.capture.plan import Plan
with start(Target(script="script.py"), Plan(mode="observe", folder="."), Wiring(output_to_stderr=True)) as child:
    child.process.wait()
"""
    done = run(["-c", code], tmp_path)
    assert done.stdout == ""
    assert sorted(done.stderr.split()) == ["err", "out"]


@pytest.mark.parametrize(("step_s", "runs"), [(1.0, 1), (6.0, 0)])
def test_no_run_is_begun_for_the_lines_where_three_steps_are_longer_than_its_share(
    step_s: float, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(record._Recording, "_run", lambda _self, phase, *_: begun.append(phase))
    recording = record._Recording(Target(script="x.py"), Options(budget=Budget.start(40.0)), tmp_path)
    heard: Any = SimpleNamespace(window=SimpleNamespace(events=9, steps=1), source=None, finished=False)
    recording._stacks(heard, heard, step_s)
    assert len(begun) == runs
    assert recording.cut == (
        ["Lines of the script are not named: the second, short run with stacks did not get that far."]
        if runs
        else ["Lines of the script are not named: with steps of 6.0 s that takes too long."]
    )


CELLS = """
    import torch

    cell, x = torch.nn.GRUCell(4, 4), torch.randn(20, 2, 4)

    @torch.no_grad()
    def sequence():
        hidden = torch.zeros(2, 4)
        for t in range(20):
            hidden = cell(x[t], hidden)
        return hidden

    for _ in range(30):
        sequence()
"""


def test_the_steps_of_a_cell_in_a_loop_are_the_calls_of_the_function_around_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    captured = recorded(write(tmp_path, CELLS, "cells.py"), stacks=False)
    assert captured.facts.step_source == "calls of sequence()"
    assert captured.trace_file is not None
    assert (
        sum(event["name"] == "aten::gru_cell" for event in events(captured.trace_file)) == 20 * captured.recorded_steps
    )


@pytest.mark.parametrize(
    ("kind", "calls", "turns"),
    [
        ("module", {"GRUCell": 100, "Linear": 1}, True),
        ("module", {"GRUCell": 1, "Linear": 100}, False),
        ("optimizer", {"GRUCell": 100}, False),
        ("module", {}, False),
    ],
)
def test_a_cell_counts_as_the_turn_of_a_loop_only_where_its_calls_are_the_steps(
    kind: str, calls: dict[str, int], turns: bool
) -> None:
    watched: Any = SimpleNamespace(source=SimpleNamespace(kind=kind))
    facts: Any = SimpleNamespace(roots=[SimpleNamespace(name=name, calls=count) for name, count in calls.items()])
    assert record._steps_are_turns(watched, facts) is turns
