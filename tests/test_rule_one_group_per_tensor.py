"""OPT005: a parameter group for each tensor, so the fused optimizer fuses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import OptimizerFacts
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.one_group_per_tensor import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def optimizer(**more: Any) -> OptimizerFacts:
    """AdamW over 40 tensors, one in each group, all with the same options."""
    usual: dict[str, Any] = {
        "name": "AdamW",
        "groups": 40,
        "lone_groups": 40,
        "settings": 1,
        "tensors": 40,
        "parameter_bytes": 0,
        "fused": True,
        "foreach": False,
        "file": "train.py",
        "line": 12,
    }
    return OptimizerFacts(**(usual | more))


def steps_of_2_ms(folder: Path, took_ns: int = 800_000, kernel: str = "aten::_fused_adamw_", **call: Any) -> Trace:
    """Four steps; in each an optimizer's step of `took_ns` with 40 calls of the kernel over one tensor."""
    built = TraceBuilder()
    values = call.get("values", ["0.001"] * 40)
    for start in range(0, 8_000_000, 2_000_000):
        built.step(start // 2_000_000, start, 2_000_000)
        built.op("aten::linear", start, 100_000)
        built.annotation("Optimizer.step#AdamW.step", start + 1_000_000, took_ns)
        for place, value in enumerate(values):
            shapes = [[[64]] * call.get("tensors", 1), []]
            arguments = {"Input Dims": shapes, "Input type": ["TensorList", "Scalar"], "Concrete Inputs": ["", value]}
            built.op(kernel, start + 1_000_000 + place * took_ns // 50, took_ns // 100, **arguments)
    return built.trace(folder)


def test_groups_of_one_tensor_are_counted_and_named_with_their_line(tmp_path: Path) -> None:
    trace = observed(steps_of_2_ms(tmp_path), optimizers=(optimizer(),))

    [seen] = ask(RULE, trace)

    assert (seen.where.file, seen.where.line) == ("train.py", 12)
    assert seen.evidence == {"groups": 40, "settings": 1, "share": pytest.approx(0.4), "over_lists": True}
    [outcome] = examine(trace, Found((RULE,))).outcomes
    # 40 tensors at 5 µs each stay of the 800 µs
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(600_000, abs=2)


def test_moving_the_parameters_takes_its_time_in_one_group_too(tmp_path: Path) -> None:
    # 400 kB moved seven times at 7 GB/s are 400 µs, and 40 tensors at 5 µs 200 µs more
    facts = optimizer(parameter_bytes=400_000)
    trace = observed(steps_of_2_ms(tmp_path), optimizers=(facts,), copy_bytes_per_s=7e9)

    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert outcome.findings[0].stake.ns_per_step == pytest.approx(200_000, abs=2)


def test_without_kernels_over_lists_only_a_trial_can_tell(tmp_path: Path) -> None:
    trace = observed(steps_of_2_ms(tmp_path, kernel="aten::mul_"), optimizers=(optimizer(fused=False),))

    [seen] = ask(RULE, trace)

    assert seen.edit is None


@pytest.mark.parametrize(
    "facts",
    [
        optimizer(groups=15, lone_groups=15, tensors=15),
        optimizer(settings=40),
        optimizer(lone_groups=2),
        optimizer(groups=20, lone_groups=16, settings=20),
    ],
    ids=["few groups", "options of their own", "groups of many tensors", "as few as can be"],
)
def test_groups_that_have_their_reason_are_left_in_peace(tmp_path: Path, facts: OptimizerFacts) -> None:
    assert ask(RULE, observed(steps_of_2_ms(tmp_path), optimizers=(facts,))) == []


@pytest.mark.parametrize(("took_ns", "found"), [(38_000, False), (42_000, True)])
def test_it_speaks_from_a_fiftieth_of_the_step_on(tmp_path: Path, took_ns: int, found: bool) -> None:
    assert bool(ask(RULE, observed(steps_of_2_ms(tmp_path, took_ns), optimizers=(optimizer(),)))) is found


def test_other_recordings_show_it_by_calls_over_one_tensor(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of_2_ms(tmp_path, values=["0.001"] * 30 + ["0.01"] * 10))

    assert (seen.evidence["groups"], seen.evidence["settings"]) == (40, 2)
    assert seen.where.op == "Optimizer.step#AdamW.step"


def test_calls_over_many_tensors_are_as_they_should_be(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_2_ms(tmp_path, tensors=2)) == []
