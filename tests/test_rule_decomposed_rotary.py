"""FUS003: rotary embeddings are spelled out in single ops."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.rules.decomposed_rotary import RULE
from tests.asking import ask
from tests.called import Call, on_gpu, tensor

Q, HALF, COS = tensor(2, 16, 512, 64), tensor(2, 16, 512, 32), tensor(1, 1, 512, 64)
TURNED: list[Call] = [
    ("aten::mul", 90_000, Q, COS),
    ("aten::slice", 0, Q, 3, 0, 32),
    ("aten::slice", 0, Q, 3, 32, 64),
    ("aten::neg", 40_000, HALF),
    ("aten::cat", 120_000, "", -1),
    ("aten::mul", 80_000, Q, COS),
    ("aten::add", 100_000, Q, Q, 1),
]
BY_HALVES: list[Call] = [
    ("aten::mul", 40_000, HALF, COS),
    ("aten::mul", 40_000, HALF, COS),
    ("aten::sub", 50_000, HALF, HALF, 1),
    ("aten::mul", 40_000, HALF, COS),
    ("aten::mul", 40_000, HALF, COS),
    ("aten::add", 50_000, HALF, HALF, 1),
    ("aten::cat", 120_000, "", -1),
]


def test_queries_and_keys_are_found_and_all_but_their_longest_kernels_are_at_stake(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, *TURNED, *TURNED)

    [seen] = ask(RULE, trace)

    assert seen.evidence["chains_per_step"] == 2
    assert seen.evidence["pieces"] == 10
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 2 * (430_000 - 120_000)


def test_four_products_on_halves_are_the_same(tmp_path: Path) -> None:
    trace = on_gpu(tmp_path, *BY_HALVES)

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 380_000 - 120_000


@pytest.mark.parametrize("left_out", [3, 4])
def test_without_the_turned_half_it_is_something_else(tmp_path: Path, left_out: int) -> None:
    assert ask(RULE, on_gpu(tmp_path, *TURNED[:left_out], *TURNED[left_out + 1 :])) == []


def test_the_negated_part_must_be_half_of_it(tmp_path: Path) -> None:
    third = ("aten::neg", 40_000, tensor(2, 16, 512, 16))

    assert ask(RULE, on_gpu(tmp_path, *TURNED[:3], third, *TURNED[4:])) == []


def test_what_is_added_must_have_one_shape(tmp_path: Path) -> None:
    assert ask(RULE, on_gpu(tmp_path, *TURNED[:6], ("aten::add", 100_000, Q, COS, 1))) == []
