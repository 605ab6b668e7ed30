"""PRC006: autocast in bfloat16 on a CPU that has no units for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.autocast_without_isa import RULE
from tests.asking import ask
from tests.observed import arguments, observed, root
from tests.trace_builder import TraceBuilder

BF16, OLD_CPU = "c10::BFloat16", ("avx2", "avx512f", "fma")


def steps_of_1_ms(folder: Path, kind: str = BF16, product_ns: int = 200_000) -> Trace:
    """Each of three steps casts for 100 µs and multiplies."""
    built = TraceBuilder()
    cast: Any = arguments(([8, 64], kind), ([8, 64], "float"), 0)
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::to", start + 1_000, 100_000).op("aten::_to_copy", start + 2_000, 98_000)
        built.op("aten::copy_", start + 3_000, 90_000, **cast)
        built.op("aten::linear", start + 200_000, product_ns, **arguments(([8, 64], kind), ([64, 64], kind)))
    return built.trace(folder)


def test_products_and_casts_are_found_on_a_cpu_without_units(tmp_path: Path) -> None:
    trace = observed(steps_of_1_ms(tmp_path), cpu_flags=OLD_CPU, roots=(root(autocast="bfloat16"),))

    [seen] = ask(RULE, trace)

    # two judged steps of 1 ms, 300 µs each
    assert seen.evidence == {"products": 2, "casts": 2, "share": pytest.approx(0.3), "autocast": True}
    assert seen.where.op == "aten::linear"
    assert seen.message.startswith("Under autocast")
    assert seen.edit is None


def test_a_model_converted_by_hand_is_the_same_illness(tmp_path: Path) -> None:
    [seen] = ask(RULE, observed(steps_of_1_ms(tmp_path), cpu_flags=OLD_CPU, roots=(root(),)))

    assert "autocast" not in seen.message


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", "bf16"])
def test_a_cpu_with_units_gains_from_it(tmp_path: Path, flag: str) -> None:
    assert ask(RULE, observed(steps_of_1_ms(tmp_path), cpu_flags=(*OLD_CPU, flag))) == []


def test_where_the_cpus_flags_are_not_known_nothing_is_said(tmp_path: Path) -> None:
    assert ask(RULE, observed(steps_of_1_ms(tmp_path), cpu_flags=())) == []


@pytest.mark.parametrize("kind", ["float", "c10::Half", "double"])
def test_other_types_are_left_in_peace(tmp_path: Path, kind: str) -> None:
    assert ask(RULE, observed(steps_of_1_ms(tmp_path, kind), cpu_flags=OLD_CPU)) == []


@pytest.mark.parametrize(("limit", "found"), [(0.29, True), (0.31, False)])
def test_it_speaks_from_its_share_of_the_step_on(tmp_path: Path, limit: float, found: bool) -> None:
    assert bool(ask(RULE, observed(steps_of_1_ms(tmp_path), cpu_flags=OLD_CPU), share=limit)) is found
