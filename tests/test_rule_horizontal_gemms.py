"""FUS006: the same tensor is multiplied with one weight after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.horizontal_gemms import RULE
from tests.asking import ask
from tests.called import BF16, H100
from tests.observed import arguments, observed
from tests.trace_builder import TraceBuilder

OP_NS, KERNEL_NS = 20_000, 10_000


def projections(folder: Path, rows: int, shared: tuple[int, ...], between: str = "", **more: Any) -> Trace:
    """Three products of `rows` × 1024 by 1024 × 1024 in bfloat16, 20 µs of the host's time each; which share an input.

    A step of 200 µs that the host sets the pace of, unless `kernel_ns` is long: then a wait ends it.
    """
    kernel_ns = more.get("kernel_ns", KERNEL_NS)
    x, weight = ([rows, 1024], BF16), ([1024, 1024], BF16)
    built = TraceBuilder(devices=[more.get("device", H100)])
    end = 0
    for place in range(3):
        at = 10_000 + place * (OP_NS + 5_000)
        built.op("aten::linear", at, OP_NS, **arguments(x, weight, ""))
        built.op("aten::mm", at + 5_000, 10_000, **arguments(x, weight))
        end = max(end, at + 18_000)
        built.launch("gemm", (at + 8_000, 5_000), (end, kernel_ns))
        end += kernel_ns
        if between:
            built.op(between, at + OP_NS + 500, 4_000, **arguments(x))
    trace = built.step(1, 0, max(200_000, end)).trace(folder)
    starts = [trace.base_ns + 10_000 + place * (OP_NS + 5_000) for place in shared]
    return observed(trace, shared_inputs=(tuple(starts),) if starts else ())


def test_three_layers_of_one_tensor_keep_one_launch(tmp_path: Path) -> None:
    trace = projections(tmp_path, 1, (0, 1, 2))

    [seen] = ask(RULE, trace)

    assert seen.message.startswith("3 linear layers per step could be 1: up to 3 in a row are given the same tensor")
    # the dispatch of the second and third product: from the start of its aten::mm to the end, 10 µs each
    assert seen.edit is not None
    assert len(seen.edit.joined) == 2
    assert stake_of(trace, [seen.edit]).ns_per_step == 2 * 10_000


def test_what_is_read_again_shrinks_where_the_memory_is_the_limit(tmp_path: Path) -> None:
    [seen] = ask(RULE, projections(tmp_path, 64, (0, 1)))

    # of 2 · (2 · 64 · 1024 + 1024²) · 2 bytes the 64 · 1024 · 2 of the second input need not be read
    assert seen.edit is not None
    assert list(seen.edit.keep.values()) == pytest.approx([1 - 131_072 / 4_718_592] * 2)


def test_arithmetic_does_not_shrink(tmp_path: Path) -> None:
    [seen] = ask(RULE, projections(tmp_path, 16_384, (0, 1)))

    assert seen.edit is not None
    assert seen.edit.keep == {}


def test_views_may_stand_between_them_and_what_computes_may_not(tmp_path: Path) -> None:
    assert len(ask(RULE, projections(tmp_path, 64, (0, 1, 2), between="aten::view"))) == 1
    assert ask(RULE, projections(tmp_path, 64, (0, 1, 2), between="aten::silu")) == []


def test_without_a_tensor_that_is_known_to_be_shared_nothing_is_said(tmp_path: Path) -> None:
    assert ask(RULE, projections(tmp_path, 64, ())) == []
    assert ask(RULE, projections(tmp_path, 64, (0, 2))) == []  # another layer stands between them


def test_an_unknown_board_keeps_its_arithmetic(tmp_path: Path) -> None:
    [seen] = ask(RULE, projections(tmp_path, 64, (0, 1), device={**H100, "numSms": 1}))

    assert seen.edit is not None
    assert seen.edit.keep == {}
