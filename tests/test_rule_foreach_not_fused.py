"""OPT002: the optimizer does its step in many passes over the parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.foreach_not_fused import RULE
from tests.asking import ask
from tests.updating import on_cpu, on_gpu

STEP = "Optimizer.step#AdamW.step"
LISTS = [("aten::_foreach_mul_", 30_000), ("aten::_foreach_lerp_", 40_000), ("aten::_foreach_addcdiv_", 50_000)]
SINGLE = [("aten::mul_", 30_000), ("aten::lerp_", 40_000), ("aten::sqrt", 30_000), ("aten::addcdiv_", 50_000)]


def test_on_a_gpu_the_widest_op_takes_over_and_takes_twice_as_long(tmp_path: Path) -> None:
    wide = ("aten::_foreach_addcdiv_", 900_000)
    trace = on_gpu(tmp_path, STEP, ("aten::_foreach_mul_", 500_000), wide, ("aten::_foreach_add_", 500_000))

    [seen] = ask(RULE, trace)

    # twice 900 µs is almost all of 1900 µs: what goes is 100 µs of kernels
    assert seen.evidence["kinds"] == ["aten::_foreach_add_", "aten::_foreach_addcdiv_", "aten::_foreach_mul_"]
    assert seen.edit is not None
    assert sorted(seen.edit.keep.values()) == [0.0, 0.0, 0.0, 0.0, 2.0]
    assert stake_of(trace, [seen.edit]).share is not None


def test_on_a_cpu_one_pass_stays_that_is_twice_the_widest(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, STEP, *SINGLE)

    [seen] = ask(RULE, trace)

    # 150 µs in all, of which 2 · 50 stay
    assert seen.message.startswith("AdamW takes its step in 4 kinds of ops, each a pass over the parameters")
    assert "GPU" not in seen.message + seen.basis
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(50_000, abs=4)


def test_a_single_op_that_was_interrupted_is_not_the_widest(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, STEP, *SINGLE, *SINGLE, *SINGLE[:3], ("aten::addcdiv_", 400_000))

    [seen] = ask(RULE, trace)

    # at their medians 3 · 150 µs, of which twice 3 · 50 stay, and so two thirds of the 800 µs recorded
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(266_667, abs=20)


def test_one_kind_of_op_is_one_pass(tmp_path: Path) -> None:
    assert ask(RULE, on_cpu(tmp_path, "Optimizer.step#SGD.step", *[("aten::add_", 50_000)] * 5)) == []


def test_a_fused_step_is_left_in_peace(tmp_path: Path) -> None:
    assert ask(RULE, on_cpu(tmp_path, STEP, ("aten::_fused_adamw_", 100_000), ("aten::add_", 20_000))) == []


@pytest.mark.parametrize("name", ["RMSprop", "Shampoo"])
def test_there_must_be_a_fused_one(tmp_path: Path, name: str) -> None:
    assert ask(RULE, on_cpu(tmp_path, f"Optimizer.step#{name}.step", *SINGLE)) == []


def test_single_tensors_on_a_gpu_are_another_rules(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, STEP, *SINGLE)) == []


@pytest.mark.parametrize(("ops", "found"), [(1, False), (2, True)])
def test_on_a_cpu_it_speaks_from_two_percent_of_the_step_on(tmp_path: Path, ops: int, found: bool) -> None:
    # the annotation of one pair of ops is 8 + 11 µs, of two pairs 16 + 11 µs of 1 ms
    pair = [("aten::mul_", 4_000), ("aten::add_", 4_000)]

    assert bool(ask(RULE, on_cpu(tmp_path, STEP, *pair * ops))) is found
