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
    built = TraceBuilder().step(1, 0, max(1_000_000, 2 * call_ns)).op(CALL, 100_000, call_ns, **args)
    return built.op("aten::_scaled_dot_product_flash_attention_for_cpu", 101_000, call_ns - 2_000).trace(folder)


def on_gpu(folder: Path, args: dict[str, Any], inner: str, device: dict[str, Any] = H100) -> Trace:
    """A kernel of 1 ms, then attention in two kernels of 200 µs each, and a wait for them."""
    built = TraceBuilder(devices=[device]).step(1, 0, 1_430_000)
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 1_000_000))
    built.op(CALL, 20_000, 40_000, **args).op(f"aten::_scaled_dot_product_{inner}", 21_000, 38_000)
    built.launch("scores", (25_000, 5_000), (1_010_000, 200_000)).launch("sum", (35_000, 5_000), (1_210_000, 200_000))
    return built.call("cudaDeviceSynchronize", 70_000, 1_345_000).trace(folder)


SAVED_NS = 742_343
"""Of a call with MASK on a CPU, by the usual prices: 8 · 511² pairs, 2,088,968, of which none is left out. Its 511² · 4
bytes fill half a cache, and come at 10 GB/s: 0.135 + 0.498 · 0.4 ns a pair are 698,175 ns; to make its 261,121 numbers
of bool takes 0.87 ns each and 5 µs, 232,175 ns; -inf over scores 0.09 ns a pair, 188,007 ns, in its place."""


def test_a_mask_that_was_seen_to_be_causal_is_told_so(tmp_path: Path) -> None:
    causal = MaskFacts(dims=(TOKENS, TOKENS), type="bool", causal=True)
    trace = observed(on_cpu(tmp_path, given(MASK), 4_000_000), masks=(causal,))

    [seen] = ask(RULE, trace)

    assert "is given a mask that equals the causal one" in seen.message
    assert "GPU" not in seen.message
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(SAVED_NS, rel=1e-5)


def test_of_calls_that_are_alike_the_quickest_tells(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 9_000_000)
    for start, call_ns in ((100_000, 4_000_000), (5_000_000, 2_000_000)):
        built.op(CALL, start, call_ns, **given(MASK))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.edit is not None
    assert list(seen.edit.keep.values()) == pytest.approx([1 - SAVED_NS / 2_000_000] * 2, rel=1e-5)


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
