"""FUS002: a norm is spelled out in single ops."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.decomposed_norm import RULE
from tests.asking import ask
from tests.called import BF16, Call, call_op, on_cpu, on_gpu, tensor
from tests.observed import observed
from tests.trace_builder import TraceBuilder

X, ONE, WEIGHT = tensor(64, 128, 512), tensor(64, 128, 1), tensor(512)
HALF_X = tensor(64, 128, 512, of=BF16)
RMS: list[Call] = [
    ("aten::pow", 100_000, X, 2),
    ("aten::mean", 60_000, X, "[-1]", "True", ""),
    ("aten::add", 10_000, ONE, 1e-6, 1),
    ("aten::rsqrt", 10_000, ONE),
    ("aten::mul", 110_000, X, ONE),
]
CENTRED: list[Call] = [
    ("aten::mean", 60_000, X, "[-1]", "True", ""),
    ("aten::sub", 100_000, X, ONE, 1),
    ("aten::pow", 100_000, X, 2),
    ("aten::mean", 60_000, X, "[-1]", "True", ""),
    ("aten::add", 10_000, ONE, 1e-6, 1),
    ("aten::sqrt", 10_000, ONE),
    ("aten::div", 110_000, X, ONE),
]
BY_STD: list[Call] = [
    ("aten::mean", 60_000, X, "[-1]", "True", ""),
    ("aten::std", 60_000, X, "[-1]", "True", "True"),
    ("aten::sub", 100_000, X, ONE, 1),
    ("aten::mul", 100_000, WEIGHT, X),
    ("aten::add", 10_000, ONE, 1e-6, 1),
    ("aten::div", 110_000, X, ONE),
]


def test_an_rms_norm_in_float32_is_found_and_all_but_its_longest_kernel_is_at_stake(tmp_path: Path) -> None:
    up, down = ("aten::to", 70_000, HALF_X, 6), ("aten::to", 50_000, X, 15)
    scaled = ("aten::mul", 80_000, tensor(512, of=BF16), HALF_X)
    trace = on_gpu(tmp_path, up, *RMS, down, scaled)

    [seen] = ask(RULE, trace)
    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert seen.evidence["ops"] == [f"aten::{op}" for op in ["to", "pow", "mean", "add", "rsqrt", "mul", "to", "mul"]]
    assert seen.evidence["bytes_at_least"] == 2 * 2 * 64 * 128 * 512
    assert seen.message.startswith("Norms are written out in single ops, 1 times per step: 32.9% of the GPU's work")
    # 490 of 1490 µs are the norm's; 110 stay
    assert outcome.findings[0].stake.ns_per_step == 490_000 - 110_000


@pytest.mark.parametrize("ops", [RMS, CENTRED, BY_STD], ids=["rms", "centred", "std"])
def test_each_way_of_writing_a_norm_counts_once(tmp_path: Path, ops: list[Call]) -> None:
    residual = ("aten::add", 90_000, X, X, 1)

    [seen] = ask(RULE, on_gpu(tmp_path, *ops, residual, *ops))

    assert seen.evidence["chains_per_step"] == 2
    assert seen.evidence["pieces"] == 2 * len(ops)  # the sum with the residual is not the norm's


def test_a_weight_and_a_bias_belong_to_it(tmp_path: Path) -> None:
    scale, shift = ("aten::mul", 90_000, WEIGHT, X), ("aten::add", 90_000, X, WEIGHT, 1)

    [seen] = ask(RULE, on_gpu(tmp_path, *CENTRED, scale, shift))

    assert seen.evidence["pieces"] == 9


def test_one_kernel_takes_as_long_as_the_memory_needs(tmp_path: Path) -> None:
    big, one = tensor(16_384, 4_096), tensor(16_384, 1)
    ops = [
        (name, time, *(big if what is X else one if what is ONE else what for what in rest))
        for name, time, *rest in RMS
    ]
    trace = on_gpu(tmp_path, *ops)

    [seen] = ask(RULE, trace)

    # 2 · 4 · 16384 · 4096 bytes at 3.35 TB/s are 160.260 µs, more than the longest kernel's 110
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(290_000 - 160_260, abs=2)


def test_viewing_in_between_does_not_matter(tmp_path: Path) -> None:
    idle: list[Call] = [("aten::unsqueeze", 0, X, 0), ("aten::dropout", 0, X, 0.1, "False")]
    view = [call for op in RMS for call in (op, *idle)]

    assert len(ask(RULE, on_gpu(tmp_path, *view))) == 1


def test_another_op_in_between_does(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, *RMS[:3], ("aten::cumsum", 10_000, X), *RMS[3:])) == []


def test_statistics_over_everything_are_no_norm(tmp_path: Path) -> None:
    ops = [(name, time, *(tensor() if what is ONE else what for what in rest)) for name, time, *rest in BY_STD]

    assert ask(RULE, on_gpu(tmp_path, *ops)) == []


@pytest.mark.parametrize(
    "around", ["aten::rms_norm", "Torch-Compiled Region: 0/0", "autograd::engine::x", "PowBackward0"]
)
def test_inside_of_an_op_or_of_compiled_code_it_is_not_the_users(tmp_path: Path, around: str) -> None:
    built = TraceBuilder().step(1, 0, 1_000_000).op(around, 1_000, 900_000)
    for place, (name, dur_ns, *given) in enumerate(RMS):
        call_op(built, name, 10_000 + place * 120_000, dur_ns, given)

    assert ask(RULE, built.trace(tmp_path)) == []


def test_on_a_cpu_the_ops_themselves_are_at_stake(tmp_path: Path) -> None:
    trace = observed(on_cpu(tmp_path, *RMS), copy_bytes_per_s=1e12)

    [seen] = ask(RULE, trace)

    # a pass as long as pow's, one over the cache for the mean, and 80 µs for the call of the compiled function
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(290_000 - 100_000 - 60_000 - 80_000, abs=5)
    assert "GPU" not in seen.message + seen.basis
