"""ATT002: attention is a single call already, but the call cannot take the fastest way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.facts import MaskFacts
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.sdpa_slow_backend import RULE
from tests.asking import ask
from tests.called import BF16, H100
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder

TOKENS, CALL = 511, "aten::scaled_dot_product_attention"
MASK = ([TOKENS, TOKENS], "bool")


def given(mask: object, causal: bool = False, tokens: int = TOKENS, **more: Any) -> dict[str, Any]:
    """2 samples, 4 heads of 64."""
    kind = more.get("kind", "float")
    query = ([2, 4, tokens, more.get("width", 64)], kind)
    key = ([2, 4, more.get("keys", tokens), more.get("width", 64)], kind)
    found: dict[str, Any] = arguments(query, key, key, mask, "0.", causal, "", "False")  # type: ignore[arg-type]
    return found


def on_cpu(folder: Path, args: dict[str, Any], call_ns: int = 200_000) -> Trace:
    built = TraceBuilder().step(1, 0, 1_000_000).op(CALL, 100_000, call_ns, **args)
    return built.op("aten::_scaled_dot_product_flash_attention_for_cpu", 101_000, call_ns - 2_000).trace(folder)


def on_gpu(folder: Path, args: dict[str, Any], inner: str, device: dict[str, Any] = H100) -> Trace:
    """A kernel of 1 ms, then attention in two kernels of 200 µs each, and a wait for them."""
    built = TraceBuilder(devices=[device]).step(1, 0, 1_430_000)
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 1_000_000))
    built.op(CALL, 20_000, 40_000, **args).op(f"aten::_scaled_dot_product_{inner}", 21_000, 38_000)
    built.launch("scores", (25_000, 5_000), (1_010_000, 200_000)).launch("sum", (35_000, 5_000), (1_210_000, 200_000))
    return built.call("cudaDeviceSynchronize", 70_000, 1_345_000).trace(folder)


def test_a_mask_that_was_seen_to_be_causal_is_told_so(tmp_path: Path) -> None:
    trace = observed(on_cpu(tmp_path, given(MASK)), masks=(MaskFacts(dims=(TOKENS, TOKENS), type="bool", causal=True),))

    [seen] = ask(RULE, trace)

    assert "is given a mask that equals the causal one" in seen.message
    assert "GPU" not in seen.message
    assert seen.edit is not None
    # a CPU computes 511 keys in one block with or without a mask: only the mask's own fifth of 200 µs can go
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(200_000 * 0.2, abs=2)


def test_of_four_blocks_of_keys_a_cpu_leaves_out_those_above_the_diagonal(tmp_path: Path) -> None:
    [seen] = ask(RULE, on_cpu(tmp_path, given(([2048, 2048], "bool"), tokens=2048)))

    # (1 + 2 + 3 + 4) of 16 pairs of blocks are computed, without the mask's fifth: half of it stays
    assert seen.edit is not None and set(seen.edit.keep.values()) == {10 / 16 * 0.8}


def test_a_mask_that_was_not_seen_is_told_with_a_condition(tmp_path: Path) -> None:
    [seen] = ask(RULE, on_cpu(tmp_path, given(MASK)))

    assert "where that is the causal one" in seen.message


def test_a_mask_that_was_seen_to_be_another_one_is_left_in_peace(tmp_path: Path) -> None:
    other = MaskFacts(dims=(1, TOKENS, TOKENS), type="bool", causal=False)

    assert ask(RULE, observed(on_cpu(tmp_path, given(MASK)), masks=(other,))) == []


@pytest.mark.parametrize(
    "args",
    [
        given(""),
        given("", causal=True),
        given(([2, 1, TOKENS, TOKENS], "bool")),
        given(([2, 1, 1, TOKENS], "bool")),
        given(([1, 4, TOKENS, TOKENS], "float")),
        given(([TOKENS, 600], "bool"), keys=600),
        given(([63, 63], "bool"), tokens=63),
    ],
    ids=["none", "causal already", "of each sample", "padding", "of each head", "other keys", "few tokens"],
)
def test_other_masks_are_no_causal_ones(tmp_path: Path, args: dict[str, Any]) -> None:
    assert ask(RULE, on_cpu(tmp_path, args)) == []


@pytest.mark.parametrize(("call_ns", "found"), [(19_000, False), (21_000, True)])
def test_it_speaks_from_two_percent_of_the_step_on(tmp_path: Path, call_ns: int, found: bool) -> None:
    assert bool(ask(RULE, on_cpu(tmp_path, given(MASK), call_ns))) is found


@pytest.mark.parametrize(("inner", "words"), [("attention_math", "plain"), ("efficient_attention", "memory-efficient")])
def test_half_precision_without_a_mask_should_run_in_flash_kernels(tmp_path: Path, inner: str, words: str) -> None:
    trace = on_gpu(tmp_path, given("", kind=BF16, tokens=4096), inner)

    [seen] = ask(RULE, trace)

    assert f"runs in the {words} kernels, though flash attention takes its types and shapes" in seen.message
    # 2 · 2 · 4 · 4096² · (64 + 64) operations at half of 989.4 TFLOPS are 69.455 µs, more than the bytes need
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(400_000 - 69_455, abs=5)


@pytest.mark.parametrize(
    ("args", "inner", "device"),
    [
        (given("", kind=BF16), "flash_attention", H100),
        (given(""), "efficient_attention", H100),
        (given("", kind=BF16, width=512), "attention_math", H100),
        (given("", kind="c10::Half"), "attention_math", {**H100, "computeMajor": 7}),
        (given("", kind=BF16), "attention_math", {**H100, "name": "AMD Instinct MI300X"}),
    ],
    ids=["flash", "float32", "wide heads", "Volta", "another maker's"],
)
def test_where_flash_attention_runs_or_cannot_it_is_silent(
    tmp_path: Path, args: dict[str, Any], inner: str, device: dict[str, Any]
) -> None:
    assert ask(RULE, on_gpu(tmp_path, args, inner, device)) == []
