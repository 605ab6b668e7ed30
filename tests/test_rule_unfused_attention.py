"""ATT001: attention is computed step by step, with the scores in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.unfused_attention import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

BATCH, HEADS, TOKENS, WIDTH = 2, 4, 32, 8
SCORES = [BATCH, HEADS, TOKENS, TOKENS]


def steps_of_1_ms(folder: Path, **changes: Any) -> Trace:
    """Three steps: bmm 100 µs, div 50 µs, softmax 150 µs, bmm 100 µs; `changes` spoil one thing."""
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        attention(built, start, **changes)
    return built.trace(folder)


def attention(built: TraceBuilder, start: int, **changes: Any) -> None:
    rows, tokens = BATCH * HEADS, changes.get("tokens", TOKENS)
    scores = [*SCORES[:2], tokens, tokens]
    given = changes.get("given", scores)
    queries, keys = ([rows, tokens, WIDTH], "float"), ([rows, WIDTH, tokens], "float")
    weights, values = ([rows, tokens, tokens], "float"), ([rows, tokens, WIDTH], "float")
    if "around" in changes:
        built.op(changes["around"], start, 900_000)
    built.op(changes.get("first", "aten::bmm"), start + 10_000, 100_000, **arguments(queries, keys))
    built.op("aten::div", start + 120_000, 50_000, **arguments((scores, "float"), ([], "double")))
    built.op("aten::softmax", start + 180_000, 150_000, **arguments((given, "float"), changes.get("dim", -1), ""))
    built.op("aten::_softmax", start + 181_000, 148_000, **arguments((given, "float"), changes.get("dim", -1), "False"))
    built.op(changes.get("last", "aten::bmm"), start + 400_000, 100_000, **arguments(weights, values))
    if "after" in changes:
        built.op(changes["after"], start + 600_000, 20_000, **arguments((changes.get("read", scores), "float")))


def test_written_out_attention_is_found_and_what_is_between_the_products_is_at_stake(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path)

    [seen] = ask(RULE, trace)
    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert seen.message.startswith("Attention is written out 1 times per step, with its scores (2×4×32×32)")
    assert seen.evidence["scores"] == SCORES
    assert seen.evidence["ops_between"] == ["aten::div", "aten::softmax"]
    assert seen.intervals_ns == ((1_010_000, 1_500_000), (2_010_000, 2_500_000))
    # of 400 µs the products stay, 200, an exp of 0.3 ns for each of 8 · 32² pairs, and 20 µs for the call
    assert outcome.findings[0].stake.share == pytest.approx((200_000 - 2_457.6 - 20_000) / 1_000_000, rel=1e-4)


@pytest.mark.parametrize(
    "around",
    [
        "aten::scaled_dot_product_attention",
        "aten::_transformer_encoder_layer_fwd",
        "autograd::engine::evaluate_function: BmmBackward0",
    ],
)
def test_inside_of_a_fused_op_or_the_backward_pass_it_is_not_the_users(tmp_path: Path, around: str) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, around=around)) == []


@pytest.mark.parametrize("missing", ["first", "last"])
def test_a_softmax_with_only_one_product_is_no_attention(tmp_path: Path, missing: str) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, **{missing: "aten::mm"})) == []


def test_the_softmax_must_be_over_the_keys(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, dim=2)) == []


def test_the_last_dimension_may_be_counted_from_the_front(tmp_path: Path) -> None:
    assert len(ask(RULE, steps_of_1_ms(tmp_path, dim=3))) == 1


def test_the_shapes_must_fit(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, given=[BATCH, HEADS, TOKENS, 2 * TOKENS])) == []


@pytest.mark.parametrize("read", [SCORES, [BATCH * HEADS, TOKENS, TOKENS]])
def test_weights_that_are_used_afterwards_are_wanted(tmp_path: Path, read: list[int]) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, after="aten::mean", read=read)) == []


def test_what_follows_and_is_no_weights_does_not_count(tmp_path: Path) -> None:
    assert len(ask(RULE, steps_of_1_ms(tmp_path, after="aten::mean", read=[BATCH, TOKENS, HEADS * WIDTH]))) == 1


@pytest.mark.parametrize(("tokens", "found"), [(15, False), (16, True)])
def test_a_few_tokens_are_not_worth_a_word(tmp_path: Path, tokens: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, tokens=tokens))) is found


def test_on_a_gpu_the_kernels_between_the_products_are_at_stake(tmp_path: Path) -> None:
    built = TraceBuilder(devices=[{"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}])
    for start in (0, 1_000_000, 2_000_000, 3_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        attention(built, start)
        for place, (at, name) in enumerate([(20_000, "bmm"), (130_000, "div"), (190_000, "softmax"), (410_000, "bmm")]):
            built.launch(name, (start + at, 5_000), (start + 420_000 + place * 100_000, 100_000))
        built.call("cudaDeviceSynchronize", start + 510_000, 340_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["share"] == pytest.approx(0.5)
    assert "GPU's work" in seen.message
