"""What torch's fused attention takes on a CPU, told from the same attention in another form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.facts import MaskFacts
from profiler_doctor.analyzer.measures.attention import attentions
from profiler_doctor.analyzer.measures.flash_on_cpu import causal_share, fused_ns
from profiler_doctor.analyzer.measures.sdpa import sdpas
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.unfused_attention import RULE
from tests.asking import ask
from tests.called import BF16, Call, on_cpu, tensor
from tests.observed import observed

PRICES = {"exp float": 1.0}
HEADS = 8


def masked(folder: Path, tokens: int, of: str, mask: str, threads: int = 1) -> Trace:
    query = tensor(1, HEADS, tokens, 64, of=of)
    call: Call = (
        "aten::scaled_dot_product_attention", 100_000, query, query, query, tensor(tokens, tokens, of=mask), "0.",
        False, "", "False",
    )  # fmt: skip
    return observed(on_cpu(folder, call), function_ns=PRICES, copy_bytes_per_s=1e10, threads=threads)


@pytest.mark.parametrize(
    ("tokens", "of", "mask", "left_ns"),
    [
        # 524,288 pairs: 0.45 each to add a mask of 256 KiB, an eighth of a cache, whose 4 bytes come at 0.4 ns;
        # 0.3 each for -inf
        (256, "float", "float", 9_000_000 - 524_288 * (0.45 + 0.4 / 8) + 524_288 * 0.3),
        # 65,536 numbers of the mask are made, at 2.9 each and 5 µs in all
        (256, "float", "bool", 9_000_000 - 524_288 * (0.45 + 0.4 / 8) + 524_288 * 0.3 - 5_000 - 65_536 * 2.9),
        # 16 MiB of mask fit no cache; 2 of 4 blocks and the half of one are left, and -inf comes over a quarter
        (2048, "float", "float", (90_000_000 - 33_554_432 * 0.85) * 10 / 16 + 33_554_432 * 0.3 / 4),
        (
            2048,
            BF16,
            "bool",
            (90_000_000 - 33_554_432 * 0.65 - 5_000 - 4_194_304 * 2.9) * 10 / 16 + 33_554_432 * 0.3 / 4,
        ),
    ],
    ids=["numbers", "bool", "four blocks", "narrow numbers"],
)
def test_a_causal_call_leaves_out_its_mask_and_whole_blocks(
    tmp_path: Path, tokens: int, of: str, mask: str, left_ns: float
) -> None:
    trace, call_ns = masked(tmp_path, tokens, of, mask), 9_000_000 if tokens == 256 else 90_000_000

    assert causal_share(trace, sdpas(trace)[0], call_ns) == pytest.approx(left_ns / call_ns, rel=1e-6)


def test_more_threads_share_the_work_on_the_pairs(tmp_path: Path) -> None:
    trace = masked(tmp_path, 256, "float", "bool", threads=4)

    # the bytes of the mask come as quickly as they do
    left_ns = 9_000_000 - 524_288 * (0.45 / 4 + 0.4 / 8) + 524_288 * 0.3 / 4 - 5_000 - 65_536 * 2.9 / 4
    assert causal_share(trace, sdpas(trace)[0], 9_000_000) == pytest.approx(left_ns / 9_000_000, rel=1e-6)


def test_a_causal_call_takes_no_longer_than_the_masked_one_at_most(tmp_path: Path) -> None:
    trace = masked(tmp_path, 256, "float", "float")

    # three tenths of it are the products at least, and -inf over the rest takes longer than the whole call did
    assert causal_share(trace, sdpas(trace)[0], 200_000) == 1.0


def written(folder: Path, *between: Call, tokens: int = 256, width: int = 64, **facts: Any) -> Trace:
    """Products of 400 and 300 µs, and a softmax of 3 ms."""
    scores = tensor(1, HEADS, tokens, tokens)
    ops: list[Call] = [
        ("aten::bmm", 400_000, tensor(HEADS, tokens, width), tensor(HEADS, width, tokens)),
        *between,
        ("aten::_softmax", 3_000_000, scores, -1, "False"),
        ("aten::bmm", 300_000, tensor(HEADS, tokens, tokens), tensor(HEADS, tokens, 64)),
    ]
    facts = {"function_ns": PRICES, "copy_bytes_per_s": 1e10, "threads": 1} | facts
    return observed(on_cpu(folder, *ops, step_ns=10_000_000), **facts)


def call_ns(trace: Trace, causal: bool = False) -> float:
    [found] = attentions(trace)
    return fused_ns(trace, found, (400_000, 300_000), causal)


def test_both_products_run_at_the_rate_of_the_quicker_one(tmp_path: Path) -> None:
    # 300 µs twice, an exp for each pair and the call
    assert call_ns(written(tmp_path)) == pytest.approx(600_000 + 524_288 + 20_000)
    # of half the width, the first one does half the work
    assert call_ns(written(tmp_path, width=32)) == pytest.approx(450_000 + 524_288 + 20_000)


SCORES, MASK = tensor(1, HEADS, 256, 256), tensor(256, 256, of="bool")


@pytest.mark.parametrize(
    ("masking", "mask_ns"),
    [
        (("aten::masked_fill", 500_000, SCORES, MASK, "-inf"), 524_288 * 0.5 + 5_000 + 65_536 * 2.9),
        (("aten::add", 500_000, SCORES, tensor(256, 256), 1), 524_288 * 0.5),
        (("aten::div", 500_000, SCORES, 8.0), 0),
    ],
    ids=["filled", "added", "only scaled"],
)
def test_its_mask_is_the_calls(tmp_path: Path, masking: Call, mask_ns: float) -> None:
    assert call_ns(written(tmp_path, masking)) == pytest.approx(600_000 + 524_288 + 20_000 + mask_ns)


def test_a_mask_that_was_seen_to_be_causal_leaves_out_blocks(tmp_path: Path) -> None:
    masking: Call = ("aten::masked_fill", 500_000, SCORES, MASK, "-inf")
    causal = MaskFacts(dims=(256, 256), type="bool", causal=True)
    trace = written(tmp_path, masking, masks=(causal,))

    [seen] = ask(RULE, trace)

    # one block: nothing is left out, and -inf comes over all pairs at most
    stays_ns = 600_000 + 524_288 + 20_000 + 524_288 * 0.3
    assert call_ns(trace, causal=True) == pytest.approx(stays_ns)
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(4_200_000 - stays_ns, abs=10)
