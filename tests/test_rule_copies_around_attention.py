"""ATT003: queries, keys and values are copied before attention, which would take them as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules import device_copies_from_layout
from profiler_doctor.rules.copies_around_attention import RULE
from tests.asking import ask
from tests.called import on_cpu, on_gpu, tensor
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

HEADS = tensor(2, 8, 512, 64)
PRODUCT = ("aten::linear", 100_000, tensor(2, 512, 512), tensor(512, 512), "")
ATTENTION = ("aten::scaled_dot_product_attention", 200_000, HEADS, HEADS, HEADS, "", "0.", "False", "", "False")
COPY = ("aten::contiguous", 50_000, HEADS, 0)
VIEW = ("aten::transpose", 0, HEADS, 1, 2)


def test_copies_of_all_three_and_of_the_result_are_found(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, PRODUCT, VIEW, COPY, COPY, COPY, ATTENTION, VIEW, COPY, PRODUCT)

    [seen] = ask(RULE, trace)

    assert seen.evidence["copies"] == 4
    assert "100% of the time of attention itself" in seen.message
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 4 * 50_000


@pytest.mark.parametrize(("reader", "codes"), [(ATTENTION, ["ATT003"]), (PRODUCT, ["CPY006"])])
def test_copies_for_attention_are_told_once(tmp_path: Path, reader: tuple[Any, ...], codes: list[str]) -> None:
    trace = on_gpu(tmp_path, PRODUCT, VIEW, COPY, COPY, reader, PRODUCT)

    assert [rule.code for rule in (RULE, device_copies_from_layout.RULE) if ask(rule, trace)] == codes


def test_on_a_cpu_it_is_the_ops_own_time(tmp_path: Path) -> None:
    trace = on_cpu(tmp_path, PRODUCT, COPY, ATTENTION, PRODUCT)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["time_ns"], seen.evidence["attention_ns"]) == (50_000, 200_000)
    assert "GPU" not in seen.message


def test_keys_and_values_written_into_a_cache_are_no_copies_to_be_spared(tmp_path: Path) -> None:
    write = ("aten::copy_", 50_000, HEADS, HEADS, "False")

    assert ask(RULE, on_cpu(tmp_path, PRODUCT, write, write, ATTENTION, PRODUCT)) == []


def test_a_copy_of_the_result_alone_may_be_what_the_next_product_needs(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, PRODUCT, ATTENTION, COPY, PRODUCT)) == []


def test_copies_before_the_product_and_of_other_sizes_are_not_attentions(tmp_path: Path) -> None:
    other = ("aten::contiguous", 50_000, tensor(2, 512, 100), 0)

    assert ask(RULE, on_gpu(tmp_path, COPY, PRODUCT, other, ATTENTION, PRODUCT)) == []


@pytest.mark.parametrize(("copy_ns", "found"), [(19_000, False), (21_000, True)])
def test_a_tenth_of_attention_is_the_least(tmp_path: Path, copy_ns: int, found: bool) -> None:
    assert bool(ask(RULE, on_gpu(tmp_path, PRODUCT, ("aten::contiguous", copy_ns, HEADS, 0), ATTENTION))) is found


def turned(folder: Path, strides: list[int]) -> Trace:
    def given(*operands: Any, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = arguments(*operands, **more)
        return found

    built = TraceBuilder().step(1, 0, 1_000_000)
    built.op("aten::contiguous", 10_000, 50_000, **given(HEADS, 0, strides=[strides]))
    built.op("aten::copy_", 11_000, 40_000, **given(HEADS, HEADS))
    return built.op(ATTENTION[0], 70_000, 200_000, **given(*ATTENTION[2:])).trace(folder)


def test_an_innermost_axis_out_of_order_has_to_be_copied(tmp_path: Path) -> None:
    assert ask(RULE, turned(tmp_path, [262144, 32768, 1, 512])) == []
    assert len(ask(RULE, turned(tmp_path, [262144, 64, 512, 1]))) == 1
