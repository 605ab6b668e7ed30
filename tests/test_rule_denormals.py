"""PRC007: tensors hold numbers that the CPU computes with slowly."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import SubnormalFacts
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.denormals import RULE
from tests.asking import ask
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder


def holding(folder: Path, *tensors: tuple[str, int, float]) -> Trace:
    """Two steps with a long and a short op, and tensors of this name, size and share of subnormal numbers."""
    built = TraceBuilder()
    for start in (0, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000)
        built.op("aten::linear", start, 100_000).op("aten::mul", start + 200_000, 700_000)
    facts = tuple(SubnormalFacts(holder=name, elements=elements, share=share) for name, elements, share in tensors)
    return observed(built.trace(folder), subnormals=facts)


def test_the_tensor_with_the_most_of_them_is_named(tmp_path: Path) -> None:
    [seen] = ask(RULE, holding(tmp_path, ("decay", 2048, 1.0), ("model.weight", 1_000_000, 0.3)))

    assert "`model.weight`, and 1 more" in seen.message
    assert "30%" in seen.message
    assert seen.evidence["tensors"] == {"decay": 1.0, "model.weight": 0.3}
    assert seen.where.op == "aten::mul"
    assert seen.edit is None


@pytest.mark.parametrize(("share", "found"), [(0.010, False), (0.011, True)])
def test_a_few_among_many_are_nothing(tmp_path: Path, share: float, found: bool) -> None:
    assert bool(ask(RULE, holding(tmp_path, ("weight", 4096, share)))) is found


def test_where_none_were_seen_nothing_is_said(tmp_path: Path) -> None:
    assert ask(RULE, holding(tmp_path)) == []


def test_the_place_is_an_op_that_is_given_as_many_numbers(tmp_path: Path) -> None:
    built = TraceBuilder().step(0, 0, 1_000_000)
    built.op("aten::linear", 0, 700_000, **arguments(([8, 8], "float"), ([8, 8], "float")))
    built.op("aten::mul", 750_000, 50_000, **arguments(([64, 32], "float"), ([2048], "float")))
    built.op("aten::add", 850_000, 20_000, **arguments(([2048], "float"), ([2048], "float")))
    built.op("aten::fill_", 880_000, 90_000, **arguments(([2048], "float"), 0))
    tiny = SubnormalFacts(holder="decay", elements=2048, share=1.0)

    [seen] = ask(RULE, observed(built.trace(tmp_path), subnormals=(tiny,)))

    assert seen.where.op == "aten::mul"
