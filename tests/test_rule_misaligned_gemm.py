"""KRN001: a matrix product in half precision has a width that the tensor cores cannot take whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.misaligned_gemm import RULE
from tests.asking import ask
from tests.called import BF16, H100
from tests.observed import arguments
from tests.trace_builder import TraceBuilder


def product(folder: Path, shape: tuple[int, int, int], **changes: Any) -> Trace:
    """A kernel of 900 µs and a product of rows × inner by inner × columns (a transposed weight) of 100 µs."""
    rows, inner, columns = shape
    kind, device = changes.get("kind", BF16), changes.get("device", H100)
    left, right = ([rows, inner], kind), ([inner, columns], kind)
    given = arguments(left, right, strides=[[changes.get("pitch", inner), 1], [1, inner]])
    built = TraceBuilder(devices=[device]).step(1, 0, 1_010_000)
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 900_000))
    if "around" in changes:
        built.op(changes["around"], 15_000, 50_000)
    built.op(changes.get("op", "aten::mm"), 20_000, 10_000, **given)
    built.launch("gemm", (22_000, 2_000), (910_000, changes.get("gemm_ns", 100_000)))
    return built.trace(folder)


def test_a_vocabulary_that_is_no_multiple_of_8_is_found_and_only_a_trial_can_tell(tmp_path: Path) -> None:
    [seen] = ask(RULE, product(tmp_path, (128, 512, 50257)))

    assert seen.evidence["widths"] == [50257]
    assert seen.evidence["share"] == pytest.approx(0.1)
    assert "128×512 by 512×50257 in BFloat16 takes 10.0%" in seen.message
    assert seen.edit is None


@pytest.mark.parametrize("shape", [(127, 512, 2048), (128, 512, 2048), (15, 512, 50257)])
def test_the_number_of_rows_does_not_matter(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    assert ask(RULE, product(tmp_path, shape)) == []


def test_an_inner_width_or_the_stride_of_the_rows_does(tmp_path: Path) -> None:
    [inner] = ask(RULE, product(tmp_path, (128, 513, 2048)))
    [stride] = ask(RULE, product(tmp_path, (128, 512, 2048), pitch=1023))

    assert (inner.evidence["widths"], stride.evidence["widths"]) == ([513], [1023])


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "float"},
        {"op": "aten::bmm"},
        {"around": "autograd::engine::evaluate_function: MmBackward0"},
        {"device": {**H100, "computeMajor": 6}},
        {"device": {**H100, "name": "AMD Instinct MI300X"}},
        {"gemm_ns": 18_000},
    ],
    ids=str,
)
def test_it_is_silent_where_tensor_cores_or_weights_are_not_in_question(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert ask(RULE, product(tmp_path, (128, 512, 50257), **changes)) == []


def test_int8_is_fed_sixteen_at_a_time(tmp_path: Path) -> None:
    assert len(ask(RULE, product(tmp_path, (128, 512, 1032), kind="signed char"))) == 1
    assert ask(RULE, product(tmp_path, (128, 512, 1032))) == []


def test_a_real_language_model_of_30522_words_is_told_once(shared: Path) -> None:
    trace = read(shared / "traces" / "tracelens_h100_bert_small.json.gz")

    [seen] = ask(RULE, trace)

    assert (seen.evidence["columns"], seen.evidence["calls"], seen.evidence["time_ns"]) == (30522, 1, 41_280)
