"""DST002: one rank comes last to the collectives, step after step, and all others wait for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.ranks import with_peers
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.sources import traces
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.straggler import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

STEP_NS = 1_000_000
Late = Callable[[int], int]
"""Step → the rank that comes last in it."""


def rank_of(
    number: int, late: Late, lag_ns: int = 200_000, steps: int = 5, name: str = "AllReduce_Sum"
) -> TraceBuilder:
    """Steps of 1 ms: a kernel of 300 µs, a collective, a wait for both. The late rank's collective takes 50 µs."""
    built = TraceBuilder()
    for step in range(steps):
        start = step * STEP_NS
        taken = 50_000 + (0 if late(step) == number else lag_ns)
        built.step(step, start, STEP_NS).launch("kernel", (start + 5_000, 2_000), (start + 10_000, 300_000))
        built.launch(f"ncclDevKernel_{name}", (start + 8_000, 2_000), (start + 311_500, taken))
        built.call("cudaDeviceSynchronize", start + 20_000, 292_500 + taken)
    return built


def job(folder: Path, late: Late, ranks: int = 3, **more: int | str) -> list[Trace]:
    """All ranks of a job, side by side."""
    alone = []
    for number in range(ranks):
        (folder / str(number)).mkdir()
        built = rank_of(number, late, **more)  # type: ignore[arg-type]  # the names and types of rank_of's own
        alone.append(replace(built.trace(folder / str(number)), rank=number))
    return with_peers(alone)


def test_the_rank_that_all_wait_for_is_named_with_what_the_wait_is_worth(tmp_path: Path) -> None:
    first, _, last = job(tmp_path, late=lambda _: 2)

    [seen] = ask(RULE, first)
    [itself] = ask(RULE, last)

    assert (seen.evidence["late_rank"], seen.evidence["spread_ns_per_step"]) == (2, 200_000)
    assert (seen.evidence["share_of_steps"], seen.evidence["ranks"]) == (1.0, 3)
    assert seen.edit is not None
    assert stake_of(first, [seen.edit]).ns_per_step == 200_000  # each wait ends so much earlier
    assert itself.edit is None
    assert "this one not at all" in itself.message


@pytest.mark.parametrize(("late", "found"), [(lambda step: 2 if step != 1 else 0, False), (lambda step: 2, True)])
def test_who_is_last_now_and_then_is_no_straggler(tmp_path: Path, late: Late, found: bool) -> None:
    # of the 4 judged steps one is another rank's: 75 %
    assert bool(ask(RULE, job(tmp_path, late)[0])) is found


@pytest.mark.parametrize(("lag_ns", "found"), [(49_000, False), (51_000, True)])
def test_a_twentieth_of_a_step_is_let_pass(tmp_path: Path, lag_ns: int, found: bool) -> None:
    assert bool(ask(RULE, job(tmp_path, lambda _: 2, lag_ns=lag_ns)[0])) is found


@pytest.mark.parametrize(("steps", "found"), [(3, False), (4, True)])
def test_three_steps_must_be_judged(tmp_path: Path, steps: int, found: bool) -> None:
    assert bool(ask(RULE, job(tmp_path, lambda _: 2, steps=steps)[0])) is found


def test_a_broadcast_s_root_may_leave_early(tmp_path: Path) -> None:
    assert ask(RULE, job(tmp_path, lambda _: 2, name="Broadcast_RING")[0]) == []


def test_ranks_that_ran_different_collectives_are_not_compared(tmp_path: Path) -> None:
    first, second = job(tmp_path, lambda _: 1, ranks=2)
    (tmp_path / "more").mkdir()
    built = rank_of(1, lambda _: 1)
    for step in range(5):
        start = step * STEP_NS + 700_000
        built.launch("ncclDevKernel_AllReduce_Sum", (start, 2_000), (start + 5_000, 10_000))
    other = replace(built.trace(tmp_path / "more"), rank=1)

    assert len(ask(RULE, first)) == 1
    assert ask(RULE, with_peers([replace(first, cache={}), other])[0]) == []
    assert second.rank == 1


def test_a_rank_alone_is_not_judged(tmp_path: Path) -> None:
    alone = rank_of(0, lambda _: 2).trace(tmp_path)

    [outcome] = examine(alone, Found((RULE,))).outcomes

    assert outcome.status == "skipped"
    assert "other ranks" in outcome.reason


def test_the_ranks_of_a_folder_know_each_other(tmp_path: Path) -> None:
    for number in range(2):
        rank_of(number, lambda _: 1).write(tmp_path, f"rank{number}.json")

    found = traces([tmp_path]).traces

    assert [len(trace.peers) for trace in found] == [1, 1]
    assert [seen.evidence["late_rank"] for seen in ask(RULE, found[0])] == [1]
