"""PRC005: a model in float16 runs on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.half_on_cpu import RULE
from tests.asking import ask
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder


def product(kind: str) -> dict[str, Any]:
    return arguments(([8, 64], kind), ([64, 64], kind), ([64], kind))


def built_steps(name: str, dur_ns: int, args: dict[str, Any]) -> TraceBuilder:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op(name, start + 1_000, dur_ns, **args)
    return built


def steps_of_1_ms(folder: Path, name: str, dur_ns: int, args: dict[str, Any]) -> Trace:
    return built_steps(name, dur_ns, args).trace(folder)


@pytest.mark.parametrize("name", ["aten::linear", "aten::bmm", "aten::conv2d", "aten::mkldnn_convolution"])
def test_products_and_convolutions_in_float16_are_found(tmp_path: Path, name: str) -> None:
    [seen] = ask(RULE, steps_of_1_ms(tmp_path, name, 300_000, product("c10::Half")))

    assert seen.evidence["share"] == pytest.approx(0.3)
    assert seen.evidence["by_op"] == {name: 2}
    assert seen.where.op == name
    assert seen.edit is None


@pytest.mark.parametrize("kind", ["float", "c10::BFloat16", "double"])
def test_other_types_are_left_in_peace(tmp_path: Path, kind: str) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, "aten::linear", 300_000, product(kind))) == []


def test_float16_elsewhere_than_in_products_is_no_illness(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, "aten::relu", 300_000, product("c10::Half"))) == []


@pytest.mark.parametrize(("dur_ns", "found"), [(9_500, False), (10_500, True)])
def test_it_speaks_from_a_hundredth_of_the_step_on(tmp_path: Path, dur_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, "aten::linear", dur_ns, product("c10::Half")))) is found


def test_what_an_op_calls_inside_is_counted_once(tmp_path: Path) -> None:
    built = built_steps("aten::linear", 300_000, product("c10::Half"))
    for start in (0, 1_000_000, 2_000_000):
        built.op("aten::addmm", start + 5_000, 290_000, **product("c10::Half"))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["share"] == pytest.approx(0.3)
    assert seen.evidence["ops"] == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("avx2", "f16c"), "no arithmetic for it"),
        (("avx512_fp16", "amx_bf16"), "avx512_fp16), so it may even be right"),
    ],
)
def test_what_the_cpu_can_do_is_said(tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    trace = steps_of_1_ms(tmp_path, "aten::linear", 300_000, product("c10::Half"))

    [seen] = ask(RULE, observed(trace, cpu_flags=flags))

    assert said in seen.message


def test_a_run_that_used_a_gpu_is_skipped(tmp_path: Path) -> None:
    built = built_steps("aten::linear", 300_000, product("c10::Half"))
    built.launch("hgemm", (2_000, 5_000), (10_000, 50_000))

    [outcome] = examine(built.trace(tmp_path), Found((RULE,))).outcomes

    assert outcome.status == "skipped"
    assert "CPU" in outcome.reason
