"""OPT001: the optimizer updates one tensor after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.single_tensor_optimizer import RULE
from tests.asking import ask
from tests.updating import on_gpu

STEP = "Optimizer.step#SGD.step"
ADD = ("aten::add_", 1_000)


def test_a_kernel_for_each_parameter_is_found_and_all_launches_but_one_of_a_kind_are_at_stake(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, STEP, *[ADD] * 30)

    [seen] = ask(RULE, trace)

    assert seen.message == "SGD updates its parameters one by one, with 30 kernels per step."
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 29 * 10_000


def test_each_kind_of_op_keeps_a_launch(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, STEP, *[ADD, ("aten::mul_", 1_000)] * 15)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert len(seen.edit.joined) == 28


@pytest.mark.parametrize(("kernels", "found"), [(20, False), (21, True)])
def test_twenty_kernels_are_what_lists_need(tmp_path: Path, kernels: int, found: bool) -> None:
    assert bool(ask(RULE, on_gpu(tmp_path, STEP, *[ADD] * kernels))) is found


@pytest.mark.parametrize("other", ["aten::_foreach_add_", "aten::_fused_adamw_", "multi_tensor_apply"])
def test_an_optimizer_that_works_on_lists_is_left_in_peace(tmp_path: Path, other: str) -> None:
    assert ask(RULE, on_gpu(tmp_path, STEP, *[ADD] * 30, (other, 1_000))) == []


def test_optimizers_from_elsewhere_have_their_reasons(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, "Optimizer.step#Shampoo.step", *[ADD] * 30)) == []


def test_what_runs_outside_of_an_optimizer_does_not_count(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, "my own update", *[ADD] * 30)) == []
