"""ATT004: a cache of keys and values is copied whole to add one token to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.kv_cache_by_cat import RULE
from tests.asking import ask
from tests.called import H100
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

TOKEN_NS = 1_000_000


def together(tokens: int, added: int = 1) -> dict[str, Any]:
    """Concatenate a cache [1, 8, tokens, 64] with what is added."""
    return {
        "Input Dims": [[[1, 8, tokens, 64], [1, 8, added, 64]], []],
        "Input type": ["TensorList", "Scalar"],
        "Concrete Inputs": ["", "2"],
    }


def decoded(folder: Path, lengths: Iterable[int], layers: int = 1, added: int = 1, extra: str = "") -> Trace:
    """A step of 1 ms for each token; keys and values of each layer take 100 µs each."""
    built = TraceBuilder()
    for place, tokens in enumerate(lengths):
        start = place * TOKEN_NS
        built.step(place, start, TOKEN_NS)
        for number in range(2 * layers):
            built.op("aten::cat", start + 10_000 + number * 110_000, 100_000, **together(tokens, added))
        if extra:
            built.op(extra, start + 900_000, 10_000, **arguments(([1, 8, tokens, 64], "float"), 0, ([1], "long int")))
    return built.trace(folder)


def test_keys_and_values_of_each_layer_are_told(tmp_path: Path) -> None:
    [seen] = ask(RULE, decoded(tmp_path, [8, 9, 10, 11], layers=2))

    assert seen.evidence["caches"] == 4


def test_a_cache_that_has_grown_once_only_may_be_an_accident(tmp_path: Path) -> None:
    assert ask(RULE, decoded(tmp_path, [9, 10, 11])) == []  # the first of three steps is not judged


def test_the_part_of_the_new_token_stays(tmp_path: Path) -> None:
    trace = decoded(tmp_path, [8, 9, 10, 11])

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("2 caches are copied whole for each token, with 9 to 11 tokens in them: 20.0%")
    assert seen.edit is not None
    # 1/10, 1/11 and 1/12 of 200 µs stay
    gone = 200_000 * (9 / 10 + 10 / 11 + 11 / 12) / 3
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(gone, abs=3)


def test_on_a_gpu_the_kernels_shrink(tmp_path: Path) -> None:
    built = TraceBuilder(devices=[H100])
    for place in range(8):
        at, tokens = 10_000 + place * 20_000, 100 + place // 2
        built.op("aten::cat", at, 15_000, **together(tokens))
        built.launch("CatArrayBatchedCopy", (at + 5_000, 5_000), (at + 12_000, 10_000))

    [seen] = ask(RULE, built.trace(tmp_path))

    assert seen.edit is not None
    # without steps the window begins with the first launch, inside of the first op: length 100 is not seen whole
    assert sorted(set(seen.edit.keep.values())) == [1 / 104, 1 / 103, 1 / 102]


@pytest.mark.parametrize("lengths", [[8, 8, 8, 8, 8], [8, 10, 12, 14, 16], [8, 9, 8, 9, 8], [11, 10, 9, 8, 7]], ids=str)
def test_lengths_that_do_not_go_up_by_one_are_no_cache(tmp_path: Path, lengths: list[int]) -> None:
    assert ask(RULE, decoded(tmp_path, lengths)) == []


def test_more_than_a_token_at_a_time_is_another_kind_of_growth(tmp_path: Path) -> None:
    assert ask(RULE, decoded(tmp_path, [8, 9, 10, 11, 12], added=2)) == []


def test_one_concatenation_per_token_is_no_pair_of_keys_and_values(tmp_path: Path) -> None:
    built = TraceBuilder()
    for place in range(6):
        built.step(place, place * TOKEN_NS, TOKEN_NS)
        built.op("aten::cat", place * TOKEN_NS + 10_000, 100_000, **together(8 + place))

    assert ask(RULE, built.trace(tmp_path)) == []


def test_beam_search_reorders_its_cache(tmp_path: Path) -> None:
    assert len(ask(RULE, decoded(tmp_path, range(8, 13), extra="aten::embedding"))) == 1
    assert ask(RULE, decoded(tmp_path, range(8, 13), extra="aten::index_select")) == []
