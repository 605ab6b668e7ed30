"""DAT002: rows of a tensor in memory are fetched one by one and stacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules import loader_exposed
from profiler_doctor.rules.per_sample_fetch import RULE
from tests.asking import ask
from tests.loading import SINGLE, loader, picking_steps
from tests.observed import observed
from tests.trace_builder import TraceBuilder


def test_picking_one_by_one_is_found_at_the_line_that_makes_the_loader(tmp_path: Path) -> None:
    trace = observed(picking_steps(tmp_path), loaders=(loader(),))

    [seen] = ask(RULE, trace)

    assert (seen.where.file, seen.where.line) == ("data.py", 9)
    assert seen.evidence["share"] == pytest.approx(0.3)
    assert (seen.evidence["samples"], seen.evidence["sample_bytes"]) == (16, 32 * 8)
    assert seen.evidence["ns_per_sample"] == 300_000 // 16
    assert ask(loader_exposed.RULE, trace) == []


@pytest.mark.parametrize(
    ("fetch_ns", "row", "stays_ns"),
    [
        # 12 picks besides and 16 of rows, of which 2 stay: 14 of 28; 4096 bytes moved, 0.41 µs at 10 GB/s, take 0.696
        (300_000, 32, 149_795 + 696),
        # 131,072 bytes moved are 13.107 µs: of the other 286.893 half stays, and 1.7 times as much for the bytes
        (300_000, 1024, 143_446 + 22_282),
        # of the other 40 µs half stays
        (53_107, 1024, 20_000 + 22_282),
    ],
    ids=["small rows", "large rows", "mostly bytes"],
)
def test_what_one_indexing_of_all_rows_takes_stays(tmp_path: Path, fetch_ns: int, row: int, stays_ns: int) -> None:
    trace = observed(
        picking_steps(tmp_path, row=row),
        loaders=(loader(fetch_ns=fetch_ns),),
        step_ns=(500_000,) * 9,
        copy_bytes_per_s=1e10,
    )

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(fetch_ns - stays_ns, abs=50)


def test_two_tensors_a_sample_are_picked_by_two_ops(tmp_path: Path) -> None:
    trace = observed(picking_steps(tmp_path, more="aten::select"), loaders=(loader(),), copy_bytes_per_s=1e15)

    [seen] = ask(RULE, trace)

    # 18 picks besides and 32 of rows, of which 4 stay: 22 of 50 picks, of 300 µs
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == pytest.approx(300_000 * 28 / 50, abs=50)


def test_rows_so_large_that_indexing_them_takes_as_long_are_worth_nothing(tmp_path: Path) -> None:
    # 128 KB are 262,144 bytes moved, 262.144 µs at 1 GB/s, and 445.6 as one indexing
    trace = observed(
        picking_steps(tmp_path, row=2048),
        loaders=(loader(fetch_ns=300_000),),
        step_ns=(500_000,) * 9,
        copy_bytes_per_s=1e9,
    )

    [seen] = ask(RULE, trace)

    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 0


def test_the_un_profiled_time_of_a_fetch_decides_where_it_was_taken(tmp_path: Path) -> None:
    # 90 µs a fetch and 300 µs a step without the profiler
    trace = observed(picking_steps(tmp_path), loaders=(loader(fetch_ns=90_000),), step_ns=(300_000,) * 9)

    assert ask(RULE, trace)[0].evidence["share"] == pytest.approx(0.3)
    slow = observed(trace, loaders=(loader(fetch_ns=20_000),), step_ns=(300_000,) * 9)
    assert ask(RULE, slow) == []


def test_other_recordings_show_it_by_their_ops(tmp_path: Path) -> None:
    [seen] = ask(RULE, picking_steps(tmp_path))

    assert seen.evidence["samples"] == 16
    assert seen.where.op == SINGLE


@pytest.mark.parametrize("work", ["aten::roll", "aten::mul", "aten::randn"])
def test_samples_that_are_worked_on_need_their_own_calls(tmp_path: Path, work: str) -> None:
    trace = observed(picking_steps(tmp_path, more=work), loaders=(loader(),))

    assert ask(RULE, trace) == []
    assert len(ask(loader_exposed.RULE, trace)) == 1


@pytest.mark.parametrize(
    "facts",
    [{"in_memory": False}, {"workers": 2}, {"own_collate": True}, {"batch_size": None}, {"batch_size": 4}],
    ids=lambda facts: next(iter(facts)),
)
def test_other_ways_of_loading_are_left_in_peace(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert ask(RULE, observed(picking_steps(tmp_path), loaders=(loader(**facts),))) == []


def test_large_rows_are_worth_a_fetch_each(tmp_path: Path) -> None:
    # 8193 numbers of 8 bytes are more than 64 KB
    assert ask(RULE, observed(picking_steps(tmp_path, row=8193), loaders=(loader(),))) == []


def test_slow_python_between_the_picks_is_another_illness(tmp_path: Path) -> None:
    # 16 samples in 850 µs are 53 µs each
    assert ask(RULE, observed(picking_steps(tmp_path, fetch_ns=850_000), loaders=(loader(),))) == []


@pytest.mark.parametrize(("fetch_ns", "found"), [(99_000, False), (101_000, True)])
def test_it_speaks_from_a_tenth_of_the_step_on(tmp_path: Path, fetch_ns: int, found: bool) -> None:
    assert bool(ask(RULE, observed(picking_steps(tmp_path, fetch_ns), loaders=(loader(),)))) is found


def without_steps(folder: Path) -> Trace:
    """A program that does nothing but fetch: three times 100 µs, with 50 µs between them."""
    built = TraceBuilder()
    for start in (0, 150_000, 300_000):
        built.annotation(SINGLE, start, 100_000)
        for place in range(16):
            built.op("aten::select", start + place * 5_000, 1_000)
        built.op("aten::stack", start + 95_000, 5_000)
    return built.trace(folder)


def test_where_no_steps_are_marked_the_window_is_judged(tmp_path: Path) -> None:
    [seen] = ask(RULE, observed(without_steps(tmp_path), loaders=(loader(),)))

    assert seen.evidence["share"] == pytest.approx(0.75)
    assert "recorded window" in seen.message
