"""CPY006: the GPU spends its time on putting tensors into another order in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.device_copies_from_layout import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

COPY = "void at::native::elementwise_kernel<direct_copy>(...)"
HALF, FLOAT = "c10::Half", "float"


def product_copy_product(
    *around: str, types: tuple[str, str] = (HALF, HALF), kernel: str = COPY, copy_ns: int = 100_000
) -> TraceBuilder:
    """Products of 200 and 100 µs; between them a copy inside the ops `around`, outermost first. All launched early."""
    built = TraceBuilder().step(1, 0, 300_000).op("aten::mm", 4_000, 4_000)
    built.launch("gemm", (5_000, 2_000), (10_000, 200_000))
    for depth, name in enumerate(around):
        built.op(name, 9_000 + depth * 100, 10_000 - depth * 200)
    built.op("aten::copy_", 10_000, 8_000, **{"Input Dims": [[8, 8], [8, 8]], "Input type": list(types)})
    built.launch(kernel, (12_000, 2_000), (211_500, copy_ns))
    return built.op("aten::mm", 19_500, 4_000).launch("gemm", (20_000, 2_000), (213_000 + copy_ns, 100_000))


@pytest.mark.parametrize("around", [["aten::contiguous", "aten::clone"], ["aten::reshape", "aten::clone"]])
def test_a_copy_into_another_order_is_found_with_what_it_takes(tmp_path: Path, around: list[str]) -> None:
    trace = product_copy_product(*around).trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["time_ns"], seen.where.op) == (1, 100_000, around[0])
    assert seen.edit is not None
    # the second product follows the first one at the usual 1.5 µs: it is over at 311.5 µs and not at 413
    assert stake_of(trace, [seen.edit]).ns_per_step == 413_000 - 311_500


def test_a_change_of_memory_format_is_a_change_of_order(tmp_path: Path) -> None:
    assert len(ask(RULE, product_copy_product("aten::to", "aten::_to_copy").trace(tmp_path))) == 1


def test_a_change_of_type_is_none(tmp_path: Path) -> None:
    built = product_copy_product("aten::to", "aten::_to_copy", types=(FLOAT, HALF))

    assert ask(RULE, built.trace(tmp_path)) == []


def test_a_copy_of_bytes_changes_no_order(tmp_path: Path) -> None:
    built = product_copy_product("aten::clone", kernel="Memcpy DtoD (Device -> Device)")

    assert ask(RULE, built.trace(tmp_path)) == []


@pytest.mark.parametrize("around", [["aten::add"], ["aten::convolution", "aten::contiguous"], []], ids=str)
def test_copies_that_nobody_asked_for_by_name_are_another_rule_s(tmp_path: Path, around: list[str]) -> None:
    assert ask(RULE, product_copy_product(*around).trace(tmp_path)) == []


@pytest.mark.parametrize(("copy_ns", "found"), [(6_122, False), (6_123, True)])
def test_under_two_percent_of_the_gpu_s_work_nothing_is_said(tmp_path: Path, copy_ns: int, found: bool) -> None:
    # beside products of 300 µs: 2 % of all is 6 122.4 ns
    built = product_copy_product("aten::contiguous", copy_ns=copy_ns)

    assert bool(ask(RULE, built.trace(tmp_path))) is found


def on_a_cpu(copy_ns: int, *around: str, transposed: bool = True) -> TraceBuilder:
    """Two steps of 100 µs, each with a matrix that is brought into rows again, by the ops `around` the copy."""
    built = TraceBuilder()
    strides = [[32, 1], [1, 16] if transposed else [32, 1]]
    for step in range(2):
        start = step * 100_000
        built.step(step, start, 100_000).op("aten::mm", start, 50_000)
        for depth, name in enumerate(around):
            built.op(name, start + 60_000 + depth, copy_ns - 2 * depth)
        matrix = ([16, 32], FLOAT)
        built.op("aten::copy_", start + 60_010, copy_ns - 20, **arguments(matrix, matrix, strides=strides))
    return built


def test_on_a_cpu_the_strides_tell_of_such_copies(tmp_path: Path) -> None:
    trace = on_a_cpu(20_000, "aten::contiguous", "aten::clone").trace(tmp_path)

    [seen] = ask(RULE, trace)

    assert (seen.evidence["copies"], seen.evidence["time_ns"], seen.where.op) == (2, 40_000, "aten::contiguous")
    assert "GPU" not in seen.message
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).share == pytest.approx(0.2)


@pytest.mark.parametrize(("copy_ns", "found"), [(4_900, False), (5_100, True)])
def test_on_a_cpu_it_speaks_from_a_twentieth_of_the_step_on(tmp_path: Path, copy_ns: int, found: bool) -> None:
    assert bool(ask(RULE, on_a_cpu(copy_ns, "aten::contiguous").trace(tmp_path))) is found


@pytest.mark.parametrize("around", ["aten::conv2d", "aten::scaled_dot_product_attention", "DivBackward0"])
def test_on_a_cpu_copies_that_the_library_makes_are_its_own(tmp_path: Path, around: str) -> None:
    assert ask(RULE, on_a_cpu(30_000, around, "aten::contiguous").trace(tmp_path)) == []


def test_on_a_cpu_a_copy_in_the_same_order_is_none(tmp_path: Path) -> None:
    assert ask(RULE, on_a_cpu(30_000, "aten::clone", transposed=False).trace(tmp_path)) == []
