"""FUS004: an activation, or a gate, is spelled out in single ops."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.decomposed_activation import RULE
from tests.asking import ask
from tests.called import Call, on_gpu, tensor

X, NUMBER = tensor(64, 512, 2048), 0.5


def two(op: str) -> Call:
    return (f"aten::{op}", 100_000, X, X)


def one(op: str) -> Call:
    return (f"aten::{op}", 100_000, X, NUMBER)


WRITTEN = {
    "tanh": [one(op) for op in ("mul", "pow", "mul")] + [two("add")] + [one(op) for op in ("mul", "tanh", "add")],
    "cubed": [one("mul"), two("mul"), two("mul"), one("mul"), two("add"), one("mul"), one("tanh"), one("add")],
    "halved last": [one("pow"), one("mul"), two("add"), one("mul"), one("tanh"), one("add"), one("mul")],
    "erf": [one("mul"), one("div"), one("erf"), one("add")],
    "mish": [one("softplus"), one("tanh")],
    "quick": [one("mul"), one("sigmoid")],
    "gated": [one("silu")],
}


@pytest.mark.parametrize("form", WRITTEN)
def test_each_form_is_found_and_one_kernel_of_it_stays(tmp_path: Path, form: str) -> None:
    ops = [*WRITTEN[form], two("mul")]
    trace = on_gpu(tmp_path, *ops)

    [seen] = ask(RULE, trace)

    assert seen.evidence["pieces"] == len(ops)
    assert seen.edit is not None
    # all take 100 µs; read once (twice by a gate) and written once, 537 (805) MB, are 160 (240) µs at 3.35 TB/s
    kept = 200_000 if form == "gated" else 160_260
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(100_000 * len(ops) - kept, abs=2)


def test_a_gate_may_have_its_other_product_in_between(tmp_path: Path) -> None:
    product = ("aten::linear", 300_000, tensor(64, 512, 1024), tensor(2048, 1024), "")

    [seen] = ask(RULE, on_gpu(tmp_path, one("silu"), product, two("mul")))

    assert seen.evidence["pieces"] == 2
    assert seen.evidence["time_ns"] == 200_000


def test_a_factor_of_another_shape_is_no_gate(tmp_path: Path) -> None:
    squeezed = ("aten::mul", 100_000, X, tensor(64, 1, 2048))

    assert ask(RULE, on_gpu(tmp_path, ("aten::sigmoid", 10_000, tensor(64, 1, 2048)), squeezed)) == []
    assert ask(RULE, on_gpu(tmp_path, one("silu"), squeezed)) == []


def test_an_activation_alone_is_healthy(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, one("gelu"), ("aten::linear", 300_000, X, tensor(512, 2048), ""))) == []


def test_in_a_loop_the_next_ones_first_op_is_not_the_last_ones(tmp_path: Path) -> None:
    [seen] = ask(RULE, on_gpu(tmp_path, *[*WRITTEN["tanh"], two("mul")] * 3))

    assert (seen.evidence["chains"], seen.evidence["pieces"]) == (3, 3 * 8)
