"""PRC002: most of the GPU's time goes into products in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.amp_candidate import RULE
from tests.asking import ask
from tests.observed import observed, root
from tests.products import A100, V100, products

SIMT, TF32 = "ampere_sgemm_128x64_nn", "cutlass_80_tensorop_s1688gemm_128x128"


def test_products_in_tf32_take_half_the_time_in_half_precision(tmp_path: Path) -> None:
    trace = products(tmp_path, TF32, 2_000_000, 2_000_000)

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("Products in float32 take 80% of the GPU's work")  # 4 of 5 ms
    assert seen.edit is not None
    # 2 · 4096³ at 312 TFLOPS are 0.4405 ms, which is less than half of 2 ms
    assert stake_of(trace, [seen.edit]).ns_per_step == 2_000_000


def test_plain_products_shrink_to_the_ratio_of_the_peaks(tmp_path: Path) -> None:
    trace = products(tmp_path, SIMT, 8_000_000)

    [seen] = ask(RULE, trace)

    # 19.5 / 312 = 1/16 of 8 ms is 0.5 ms, more than the 0.4405 ms of the operations
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 7_500_000


def test_before_ampere_it_is_float16(tmp_path: Path) -> None:
    [seen] = ask(RULE, products(tmp_path, "volta_sgemm_128x64_nn", 8_000_000, device=V100))

    assert seen.evidence["type"] == "fp16"


def test_nothing_is_promised_below_what_the_operations_take(tmp_path: Path) -> None:
    trace = products(tmp_path, TF32, 881_000)

    [seen] = ask(RULE, trace)

    # at the peak of TF32 already: half precision takes 440.51 µs
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(881_000 - 440_509, abs=5)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "c10::Half"},
        {"device": {**A100, "computeMajor": 6}},
        {"device": {**A100, "name": "AMD Instinct MI300X"}},
    ],
    ids=str,
)
def test_it_is_silent_without_tensor_cores_or_floats(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert ask(RULE, products(tmp_path, SIMT, 8_000_000, **changes)) == []


def test_autocast_is_in_use(tmp_path: Path) -> None:
    trace = observed(products(tmp_path, SIMT, 8_000_000), roots=(root(autocast="bfloat16"),))

    assert ask(RULE, trace) == []


@pytest.mark.parametrize(("gemm_ns", "found"), [(425_000, False), (430_000, True)])
def test_products_must_be_a_good_part_of_the_work(tmp_path: Path, gemm_ns: int, found: bool) -> None:
    # 425 of 1425 µs are 29.8 %, 430 of 1430 are 30.1 %
    assert bool(ask(RULE, products(tmp_path, TF32, gemm_ns))) is found
