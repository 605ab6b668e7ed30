"""OPT003: gradients are overwritten with zeros before each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.zero_grad_writes import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder
from tests.updating import on_cpu, on_gpu

CLEAR = "Optimizer.zero_grad#SGD.zero_grad"


@pytest.mark.parametrize("name", ["aten::zero_", "aten::_foreach_zero_"])
def test_on_a_cpu_the_time_of_the_writes_is_at_stake(tmp_path: Path, name: str) -> None:
    trace = on_cpu(tmp_path, CLEAR, (name, 40_000), (name, 60_000), steps=4)

    [seen] = ask(RULE, trace)

    assert seen.message == "Gradients are filled with zeros 2 times per step, which is 10.0% of the step."
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 100_000


def test_on_a_gpu_the_host_is_freed_of_the_calls(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, CLEAR, *[("aten::zero_", 2_000)] * 10)

    [seen] = ask(RULE, trace)

    assert "100.0% of the GPU's work" in seen.message
    assert seen.evidence["writes"] == 10


def test_gradients_that_are_dropped_are_as_they_should_be(tmp_path: Path) -> None:
    assert ask(RULE, on_cpu(tmp_path, CLEAR, ("aten::empty", 40_000))) == []


def test_zeros_elsewhere_are_another_matter(tmp_path: Path) -> None:
    assert ask(RULE, on_cpu(tmp_path, "Optimizer.step#SGD.step", ("aten::zero_", 40_000))) == []


def test_a_graph_needs_its_gradients_in_place(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000).annotation(CLEAR, 1_000, 50_000).op("aten::zero_", 2_000, 40_000)
    built.launch("graph", (60_000, 5_000), (70_000, 100_000), api="cudaGraphLaunch")

    assert ask(RULE, built.trace(tmp_path)) == []
