"""PRC001: products in float32 run without tensor cores, on a GPU that could multiply them as TF32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.fp32_matmul_no_tf32 import RULE
from tests.asking import ask
from tests.products import A100, V100, products

SIMT = "ampere_sgemm_128x64_nn"


@pytest.mark.parametrize("name", [SIMT, "cutlass_80_simt_sgemm_256x128_8x4_nn_align1", "void gemmSN_f32f32_f32f32_f32"])
def test_plain_float_kernels_are_found_and_shrink_to_the_rate_of_tf32(tmp_path: Path, name: str) -> None:
    trace = products(tmp_path, name, 8_000_000, 8_000_000)

    [seen] = ask(RULE, trace)

    assert seen.evidence["products"] == 2
    assert "94.1% of the GPU's work" in seen.message  # 16 of 17 ms
    assert seen.edit is not None
    # 19.5 / 156 = 1/8 of 8 ms is 1 ms; 2 · 4096³ operations at 156 TFLOPS are 0.881 ms, so 1 ms stays of each
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(2 * 7_000_000, rel=1e-6)


def test_nothing_gets_faster_than_the_memory(tmp_path: Path) -> None:
    trace = products(tmp_path, SIMT, 100_000, size=1024)

    [seen] = ask(RULE, trace)

    # 2 · 1024³ at 156 TFLOPS are 13.766 µs, 3 · 4 · 1024² bytes at 1555 GB/s 8.09 µs
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(100_000 - 13_766, abs=2)


@pytest.mark.parametrize("name", ["cutlass_80_tensorop_s1688gemm_128x128", "sm80_xmma_gemm_f32f32_tf32f32_f32_nn"])
def test_tf32_is_in_use(tmp_path: Path, name: str) -> None:
    assert ask(RULE, products(tmp_path, name, 8_000_000)) == []


def test_where_other_products_use_tf32_the_library_has_chosen(tmp_path: Path) -> None:
    assert ask(RULE, products(tmp_path, SIMT, 8_000_000, other="cutlass_80_tensorop_s1688gemm")) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"device": V100},
        {"device": {**A100, "name": "AMD Instinct MI300X"}},
        {"kind": "double"},
        {"kind": "c10::Half"},
        {"op": "aten::cumsum"},
    ],
    ids=str,
)
def test_it_is_silent_without_tf32_units_or_float_products(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert ask(RULE, products(tmp_path, SIMT, 8_000_000, **changes)) == []


@pytest.mark.parametrize(("gemm_ns", "found"), [(20_000, False), (21_000, True)])
def test_a_tiny_product_is_no_policy(tmp_path: Path, gemm_ns: int, found: bool) -> None:
    # 20 of 1020 µs are 1.96 %, 21 of 1021 are 2.06 %
    assert bool(ask(RULE, products(tmp_path, SIMT, gemm_ns))) is found


def test_an_unknown_board_gets_no_estimate(tmp_path: Path) -> None:
    [seen] = ask(RULE, products(tmp_path, SIMT, 8_000_000, device={**A100, "numSms": 54}))

    assert seen.edit is None
