"""LAY003: images go to the channels-last order and back, in every block."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.layout_thrash import RULE
from tests.asking import ask
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

SHAPE, KIND = [2, 16, 8, 8], "float"
NCHW, NHWC = [1024, 64, 8, 1], [1024, 1, 128, 16]
TO_LAST, TO_FIRST = (NHWC, NCHW), (NCHW, NHWC)
"""Strides of the target and of the source, both seen as (2, 16, 8, 8)."""


def steps_of_1_ms(
    folder: Path,
    *ways: tuple[list[int], list[int]],
    shape: list[int] = SHAPE,
    inside: str = "",
    image: list[int] | None = SHAPE,
) -> Trace:
    """Four steps; in each a convolution, and copies of 50 µs every 100 µs."""
    built = TraceBuilder()
    for number in range(4):
        start = number * 1_000_000
        built.step(number, start, 1_000_000)
        if image:
            weight = ([16, 16, 3, 3], KIND)
            built.op(
                "aten::conv2d", start, 90_000, **arguments((image, KIND), weight, "", "[1, 1]", "[1, 1]", "[1, 1]", 1)
            )
        for place, way in enumerate(ways, 1):
            at = start + place * 100_000
            if inside:
                built.op(inside, at - 1_000, 60_000)
            built.op("aten::contiguous", at, 50_000, **arguments((shape, KIND), 0, strides=[way[1]]))
            built.op("aten::clone", at + 1_000, 48_000, **arguments((shape, KIND), 0, strides=[way[1]]))
            built.op("aten::copy_", at + 5_000, 40_000, **arguments((shape, KIND), (shape, KIND), 0, strides=[*way]))
    return built.trace(folder)


def test_copies_to_and_fro_are_found_with_their_share_of_the_step(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, TO_LAST, TO_FIRST)

    [seen] = ask(RULE, trace)

    # three judged steps of 1 ms, two times 50 µs in each
    assert seen.evidence["share"] == pytest.approx(0.1)
    assert seen.evidence["copies_per_step"] == 2
    assert seen.evidence["bytes"] == 3 * 2 * 2 * 16 * 8 * 8 * 4
    assert seen.where.op == "aten::contiguous"
    assert seen.intervals_ns[0] == (1_100_000, 1_150_000)
    [outcome] = examine(trace, Found((RULE,))).outcomes
    assert outcome.findings[0].stake.ns_per_step == 100_000


def test_one_change_of_layout_is_no_thrashing(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, TO_LAST, TO_LAST)) == []


@pytest.mark.parametrize("inside", ["aten::convolution_backward", "aten::conv_transpose2d"])
def test_what_a_convolution_copies_by_itself_is_not_the_programs(tmp_path: Path, inside: str) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, TO_LAST, TO_FIRST, inside=inside)) == []


@pytest.mark.parametrize(("second", "found"), [("to last", False), ("to first", True)])
def test_as_many_channels_as_rows_hide_no_direction(tmp_path: Path, second: str, found: bool) -> None:
    cube = [2, 16, 16, 16]
    first, last = [4096, 256, 16, 1], [4096, 1, 256, 16]
    again = (last, first) if second == "to last" else (first, last)

    trace = steps_of_1_ms(tmp_path, (last, first), again, shape=cube, image=cube)

    assert bool(ask(RULE, trace)) is found


def test_without_a_convolution_nothing_prefers_one_of_the_orders(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, TO_LAST, TO_FIRST, image=None)) == []


def test_images_that_no_convolution_takes_are_left_in_peace(tmp_path: Path) -> None:
    wide = [2, 32, 8, 8]
    first, last = [2048, 64, 8, 1], [2048, 1, 256, 32]

    assert ask(RULE, steps_of_1_ms(tmp_path, (last, first), (first, last), shape=wide)) == []


def test_heads_of_an_attention_that_change_places_are_none(tmp_path: Path) -> None:
    by_head, by_token = [1024, 64, 8, 1], [1024, 8, 128, 1]

    assert ask(RULE, steps_of_1_ms(tmp_path, (by_token, by_head), (by_head, by_token))) == []


def test_a_copy_of_a_tensor_that_repeats_itself_is_no_change_of_order(tmp_path: Path) -> None:
    repeated = [0, 64, 8, 1]

    assert ask(RULE, steps_of_1_ms(tmp_path, (NCHW, repeated), (NHWC, repeated))) == []


@pytest.mark.parametrize(("limit", "found"), [(0.09, True), (0.11, False)])
def test_it_speaks_from_its_share_of_the_step_on(tmp_path: Path, limit: float, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, TO_LAST, TO_FIRST), share=limit)) is found
