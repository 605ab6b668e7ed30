"""PRC004: tensors are float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.accidental_fp64 import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

H100 = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}
RTX4090 = {"id": 0, "name": "NVIDIA GeForce RTX 4090", "computeMajor": 8, "computeMinor": 9}


def product(kind: str, shape: tuple[int, int] = (64, 64)) -> dict[str, Any]:
    return arguments((list(shape), kind), (list(shape), kind))


def steps_of_1_ms(folder: Path, name: str, dur_ns: int, args: dict[str, Any]) -> Trace:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op(name, start + 1_000, dur_ns, **args)
    return built.trace(folder)


def test_float64_products_are_found_and_half_of_their_time_is_at_stake(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, "aten::mm", 405_000, product("double"))

    [seen] = ask(RULE, trace)
    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert seen.evidence["share"] == pytest.approx(0.405)
    assert seen.evidence["self_ns_by_op"] == {"aten::mm": 810_000}
    assert seen.where.op == "aten::mm"
    # 5 µs of the 405 are the call itself; half of the other 400 goes
    assert outcome.findings[0].stake.share == pytest.approx(0.2)


def test_float32_is_left_in_peace(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, "aten::mm", 405_000, product("float"))) == []


def test_a_python_number_is_no_tensor(tmp_path: Path) -> None:
    args = arguments(([64, 64], "float"), ([], "double"))

    assert ask(RULE, steps_of_1_ms(tmp_path, "aten::mul", 405_000, args)) == []


@pytest.mark.parametrize("name", ["aten::to", "aten::_to_copy", "aten::copy_"])
def test_the_conversion_from_float64_is_the_cures_own_price(tmp_path: Path, name: str) -> None:
    args = arguments(([64, 64], "float"), ([64, 64], "double"))

    assert ask(RULE, steps_of_1_ms(tmp_path, name, 405_000, args)) == []


@pytest.mark.parametrize(("dur_ns", "found"), [(19_000, False), (21_000, True)])
def test_it_speaks_from_a_fiftieth_of_the_step_on(tmp_path: Path, dur_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, "aten::mm", dur_ns, product("double")))) is found


def test_only_the_op_that_takes_the_time_is_counted(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::linear", start, 410_000, **product("double"))
        built.op("aten::addmm", start + 5_000, 400_000, **product("double"))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["self_ns_by_op"] == {"aten::addmm": 800_000}


@pytest.mark.parametrize(("device", "keep"), [(H100, 0.5), (RTX4090, 1 / 32)])
def test_on_a_gpu_the_rate_of_float64_decides(tmp_path: Path, device: dict[str, Any], keep: float) -> None:
    built = TraceBuilder(devices=[device])
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::mm", start, 20_000, **product("double"))
        built.launch("dgemm", (start + 5_000, 5_000), (start + 15_000, 700_000))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.evidence["share"] == pytest.approx(1.0)
    assert seen.edit is not None
    assert list(seen.edit.keep.values()) == pytest.approx([keep, keep])
