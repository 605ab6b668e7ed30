"""DAT001: the step waits for its next batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.facts import LoaderFacts
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.loader_exposed import RULE
from tests.asking import ask
from tests.observed import observed
from tests.trace_builder import TraceBuilder

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def steps_of_1_ms(folder: Path, fetches_ns: list[int], loader: str = SINGLE, small_ops: int = 0) -> Trace:
    """A step per fetch; each fetches first, then computes."""
    built = TraceBuilder()
    for number, fetch_ns in enumerate(fetches_ns):
        start = number * 1_000_000
        built.step(number, start, 1_000_000).annotation(loader, start, fetch_ns)
        for place in range(small_ops):
            built.op("aten::select", start + 1_000 + place * 2_000, 1_000)
        built.op("aten::mm", start + fetch_ns, 900_000 - fetch_ns)
    return built.trace(folder)


def test_a_step_that_waits_for_its_batch_is_found(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, [300_000] * 4)

    [seen] = ask(RULE, trace)
    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert seen.evidence["share"] == pytest.approx(0.3)
    assert seen.evidence["single_process"] is True
    assert "own process" in seen.message
    assert "GPU" not in seen.message
    assert seen.intervals_ns[0] == (1_000_000, 1_300_000)
    assert outcome.findings[0].stake.share == pytest.approx(0.3)


def test_workers_that_cannot_keep_up_are_named(tmp_path: Path) -> None:
    [seen] = ask(RULE, steps_of_1_ms(tmp_path, [300_000] * 4, WORKERS))

    assert "worker processes" in seen.message


@pytest.mark.parametrize(("fetch_ns", "found"), [(99_000, False), (101_000, True)])
def test_it_speaks_from_a_tenth_of_the_step_on(tmp_path: Path, fetch_ns: int, found: bool) -> None:
    assert bool(ask(RULE, steps_of_1_ms(tmp_path, [fetch_ns] * 4))) is found


def test_one_slow_batch_does_not_speak_for_all(tmp_path: Path) -> None:
    assert ask(RULE, steps_of_1_ms(tmp_path, [5_000, 5_000, 5_000, 800_000, 5_000])) == []


def test_the_start_of_the_workers_is_left_out_of_the_stake(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, [50_000, 80_000, 80_000, 850_000, 80_000], WORKERS)

    [seen] = ask(RULE, trace, step_share=0.05)

    assert seen.evidence["start_ups_left_out"] == 1
    assert seen.edit is not None
    assert len(seen.edit.keep) == 3


def test_what_recording_the_loaders_small_ops_cost_is_not_the_loaders(tmp_path: Path) -> None:
    # 101 ops and two annotations a step took the profiler 515 µs: 5 µs each; 100 of them are inside the fetch of 530 µs
    trace = steps_of_1_ms(tmp_path, [530_000] * 4, small_ops=100)
    timed = observed(trace, step_ns=(485_000,) * 8, profiled_step_ns=(1_000_000,) * 4)

    assert ask(RULE, timed) == []
    assert ask(RULE, timed, step_share=0.04)[0].evidence["share"] == pytest.approx(30 / 485)


def test_no_more_is_at_stake_than_the_share_that_is_told(tmp_path: Path) -> None:
    # recorded, the fetch is 80 % of a step of 1 ms; without a profiler the step takes 600 µs
    trace = steps_of_1_ms(tmp_path, [800_000] * 4, small_ops=47)
    timed = observed(trace, step_ns=(600_000,) * 8, profiled_step_ns=(1_000_000,) * 4)

    [outcome] = examine(timed, Found((RULE,))).outcomes

    # 400 µs over 50 slices: 8 µs each, 47 of them inside the fetch
    assert outcome.findings[0].evidence["share"] == pytest.approx((800 - 47 * 8) / 600)
    assert outcome.findings[0].stake.share == pytest.approx((800 - 47 * 8) / 600, rel=0.01)


def loader(fetch_ns: int) -> LoaderFacts:
    return LoaderFacts(
        dataset="Rows",
        samples=100,
        in_memory=False,
        batch_size=4,
        workers=0,
        persistent=False,
        own_collate=False,
        iterators=1,
        fetch_ns=fetch_ns,
        file="train.py",
        line=3,
    )


@pytest.mark.parametrize("unused", [(), (loader(0),)])
def test_what_recording_made_longer_beside_the_fetch_does_not_lessen_the_stake(
    tmp_path: Path, unused: tuple[LoaderFacts, ...]
) -> None:
    # 300 µs of a step that takes 500 µs, and 1000 µs under the profiler
    trace = observed(steps_of_1_ms(tmp_path, [300_000] * 4), step_ns=(500_000,) * 9, loaders=(loader(300_000), *unused))

    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert outcome.findings[0].stake.share == pytest.approx(0.6)
    assert outcome.findings[0].stake.ns_per_step == pytest.approx(300_000, rel=1e-6)


def test_each_steps_own_share_decides_where_it_was_timed(tmp_path: Path) -> None:
    # a step of 1 ms; another program has the CPU in the second and the third, and most of it while a batch is fetched
    timed = {"step_ns": (1_000_000, 3_000_000, 2_000_000), "step_loading_ns": (300_000, 2_000_000, 800_000)}
    trace = observed(steps_of_1_ms(tmp_path, [350_000] * 4), loaders=(loader(300_000),), **timed)

    [outcome] = examine(trace, Found((RULE,))).outcomes

    assert outcome.findings[0].evidence["share"] == pytest.approx(0.4)
    assert outcome.findings[0].stake.share == pytest.approx(0.4)


def test_where_workers_start_in_a_step_its_own_share_tells_too_much(tmp_path: Path) -> None:
    trace = steps_of_1_ms(tmp_path, [50_000, 80_000, 80_000, 850_000, 80_000], WORKERS)
    timed = observed(trace, step_ns=(1_000_000,) * 3, step_loading_ns=(900_000,) * 3)

    assert ask(RULE, timed) == []


def test_the_place_is_the_datasets_own_line(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.step(start // 1_000_000, start, 1_000_000).annotation(SINGLE, start, 500_000)
        built.frame("/home/user/train.py(30): main", start + 1, 990_000)
        built.frame("/home/user/data.py(12): __getitem__", start + 5_000, 400_000)
        built.op("aten::roll", start + 10_000, 300_000)

    [seen] = ask(RULE, built.trace(tmp_path))

    assert (seen.where.file, seen.where.line, seen.where.op) == ("/home/user/data.py", 12, SINGLE)


def test_a_program_without_steps_may_be_nothing_but_a_loader(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.annotation(SINGLE, start, 900_000).op("aten::stack", start, 800_000)

    assert ask(RULE, built.trace(tmp_path)) == []


def with_a_gpu(folder: Path, kernel_ns: int) -> Trace:
    """Each step of 1 ms fetches for 300 µs, then launches one kernel that starts 320 µs into the step."""
    built = TraceBuilder()
    for number in range(5):
        start = number * 1_000_000
        built.step(number, start, 1_000_000).annotation(SINGLE, start, 300_000)
        built.op("aten::mm", start + 305_000, 10_000)
        built.launch("gemm", (start + 306_000, 5_000), (start + 320_000, kernel_ns))
    return built.trace(folder)


def test_on_a_gpu_only_the_time_that_it_idles_counts(tmp_path: Path) -> None:
    # idle from 0.72 ms of a step to 0.32 ms of the next one; 300 of these 600 µs in the loader, in 3 of 4 periods
    [seen] = ask(RULE, with_a_gpu(tmp_path, kernel_ns=400_000))

    assert "GPU idles" in seen.message
    assert seen.evidence["share"] == pytest.approx(900 / 3400, abs=0.01)


def test_loading_that_hides_behind_the_gpus_work_is_free(tmp_path: Path) -> None:
    assert ask(RULE, with_a_gpu(tmp_path, kernel_ns=999_000)) == []
