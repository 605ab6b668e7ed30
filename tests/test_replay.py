"""A recorded window, played again without its illness: every number here is worked out by hand, in nanoseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.replay import baseline_error, stake_of
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder


def row(trace: Trace, name: str, which: int = 0) -> int:
    """The event row of the given occurrence of a name."""
    rows = [place for place in range(len(trace.events)) if trace.events.name_of(place) == name]
    return rows[which]


def two_kernels() -> TraceBuilder:
    """One step of 100 µs; two launches of 2 µs, each followed 2 µs later by a kernel of 5 µs."""
    built = TraceBuilder().step(1, 0, 100_000)
    built.launch("first", (10_000, 2_000), (14_000, 5_000))
    return built.launch("second", (40_000, 2_000), (44_000, 5_000))


def test_a_replay_without_edits_gives_the_recorded_times(tmp_path: Path) -> None:
    trace = two_kernels().trace(tmp_path)

    assert baseline_error(trace) == 0.0
    assert stake_of(trace, [Edit()]).share == 0.0


def test_a_dropped_kernel_takes_its_launch_and_not_the_python_before_it(tmp_path: Path) -> None:
    trace = two_kernels().trace(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "second"): 0.0})])

    assert (stake.ns_per_step, stake.share) == (2_000, 0.02)  # the launch call's own 2 µs


def test_without_launch_gaps_kernels_follow_each_other_within_a_microsecond(tmp_path: Path) -> None:
    trace = two_kernels().trace(tmp_path)

    stake = stake_of(trace, [Edit(no_launch_gaps=True)])

    assert stake.ns_per_step == 100_000 - (5_000 + 1_000 + 5_000)


def test_the_data_loader_is_no_launch_gap(tmp_path: Path) -> None:
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = two_kernels().annotation(loading, 20_000, 15_000).trace(tmp_path)

    stake = stake_of(trace, [Edit(no_launch_gaps=True)])

    assert stake.ns_per_step == 100_000 - (15_000 + 5_000)  # the second kernel waits for its data


def waiting_for_a_kernel(tmp_path: Path) -> Trace:
    """A kernel of 40 µs, a synchronization that waits for it, 5 µs of Python, and another kernel of 10 µs."""
    built = TraceBuilder().step(1, 0, 100_000)
    built.launch("long", (10_000, 2_000), (14_000, 40_000))
    built.call("cudaDeviceSynchronize", 12_000, 43_000)
    return built.launch("short", (60_000, 2_000), (64_000, 10_000)).trace(tmp_path)


def test_a_freed_wait_lets_the_host_run_ahead_and_the_gpu_sets_the_end(tmp_path: Path) -> None:
    trace = waiting_for_a_kernel(tmp_path)

    stake = stake_of(trace, [Edit(free=(row(trace, "cudaDeviceSynchronize"),))])

    # the second kernel follows the first one, which ends at 54 µs, at the usual 1.5 µs; the host is done before it
    assert stake.ns_per_step == 100_000 - (54_000 + 1_500 + 10_000)


def test_a_wait_for_a_busy_gpu_is_worth_the_gpu_s_idle_time_alone(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 100_000, 200_000):
        built.step(start // 100_000, start, 100_000)
        built.launch("busy", (start + 2_000, 2_000), (start + 6_000, 90_000))
        built.call("cudaDeviceSynchronize", start + 4_000, 93_000)
    trace = built.trace(tmp_path)
    syncs = tuple(row(trace, "cudaDeviceSynchronize", which) for which in range(3))

    stake = stake_of(trace, [Edit(free=syncs)])

    # of the two steps that count: kernels from 106 to 196 µs and, 1.5 µs later, from 197.5 to 287.5 µs
    assert stake.ns_per_step == (300_000 - 287_500) // 2


def test_a_wait_that_stays_still_waits_when_what_it_waits_for_is_shortened(tmp_path: Path) -> None:
    trace = waiting_for_a_kernel(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "long"): 0.25})])

    assert stake.ns_per_step == 30_000  # everything after the wait moves with it


def test_a_kernel_that_waited_for_another_stream_moves_with_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 30_000)
    built.launch("producer", (1_000, 1_000), (4_000, 40_000))
    built.launch("consumer", (3_000, 1_000), (45_000, 10_000), stream=8)
    trace = built.trace(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "producer"): 0.5})])

    assert stake.ns_per_step == 20_000  # 55 µs became 35 µs: 4 + 20, 1 later, 10 long


def test_host_work_of_another_thread_that_handed_back_shortens_the_step(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("forward", (5_000, 1_000), (8_000, 1_000))
    built.tid = 2
    for start in (20_000, 30_000, 40_000, 50_000):
        built.launch("backward", (start, 1_000), (start + 3_000, 1_000))
    built.op("hook", 42_000, 7_000)
    built.tid = 1
    trace = built.launch("update", (60_000, 1_000), (63_000, 1_000)).trace(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "hook"): 0.0})])

    assert stake.ns_per_step == 7_000


def test_a_launch_that_nothing_explains_leaves_no_estimate(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 6_000_000)
    trace = built.launch("late", (10_000, 2_000), (5_014_000, 10_000)).trace(tmp_path)

    stake = stake_of(trace, [Edit(no_launch_gaps=True)])

    # played again it starts the usual 3 µs after its launch: 4.999 of 6 ms too early
    assert baseline_error(trace) == pytest.approx(-4_999_000 / 6_000_000)
    assert (stake.share, stake.ns_per_step) == (None, None)
    assert "no estimate" in stake.basis


def test_a_gpu_that_was_not_recorded_leaves_no_estimate(tmp_path: Path) -> None:
    trace = TraceBuilder().step(1, 0, 50_000).op("aten::add", 5_000, 9_000).call("cudaLaunchKernel", 6_000, 1_000)
    read_again = trace.trace(tmp_path)

    assert baseline_error(read_again) is None
    assert stake_of(read_again, [Edit(keep={row(read_again, "aten::add"): 0.0})]).share is None


def cpu_step(tmp_path: Path) -> Trace:
    """One step of 100 µs on thread 1: an op of 20 µs with a child of 5 µs in it; an op of 30 µs on thread 2."""
    built = TraceBuilder().step(1, 0, 100_000)
    built.op("parent", 10_000, 20_000).op("child", 15_000, 5_000)
    built.tid = 2
    return built.op("elsewhere", 10_000, 30_000).trace(tmp_path)


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        ({"parent": 0.0, "child": 0.0}, 20_000),
        ({"child": 0.0}, 5_000),
        ({"parent": 0.5}, 10_000),
        ({"parent": 0.5, "child": 0.0}, 12_500),  # 5 of the child and half of the other 15
        ({"elsewhere": 0.0}, 0),
    ],
)
def test_a_cpu_step_loses_each_moment_once(tmp_path: Path, keep: dict[str, float], gone: int) -> None:
    trace = cpu_step(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, name): share}) for name, share in keep.items()])

    assert (stake.ns_per_step, stake.share) == (gone, gone / 100_000)


def test_a_stake_is_told_in_terms_of_the_step_without_a_profiler(tmp_path: Path) -> None:
    trace = cpu_step(tmp_path).with_capture(Facts(step_ns=(40_000, 50_000, 90_000)), None)

    stake = stake_of(trace, [Edit(keep={row(trace, "parent"): 0.0})])

    assert (stake.ns_per_step, stake.share) == (10_000, 0.2)  # 20 % of 50 µs


def test_the_first_of_three_steps_is_left_out(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number, start in enumerate((0, 100_000, 200_000)):
        built.step(number, start, 100_000).op("op", start, 60_000 if number == 0 else 10_000)
    trace = built.trace(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "op", which): 0.0 for which in range(3)})])

    assert (stake.ns_per_step, stake.share) == (10_000, 0.1)


def test_without_steps_the_whole_window_is_replayed_and_the_basis_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder().op("first", 0, 10_000).op("second", 30_000, 10_000).trace(tmp_path)

    stake = stake_of(trace, [Edit(keep={row(trace, "first"): 0.0})])

    assert stake.share == 0.25
    assert "no steps are marked" in stake.basis


UNEXPLAINED = {
    "hta_compare_base.json.gz": "16 of 18 pieces of work have no launch",
    "hta_compare_test.json.gz": "16 of 17 pieces of work have no launch",
    "hta_rec_rank0.json.gz": "thinned out: work waits 341 ms behind kernels that were left out",
    "hta_rec_rank1.json.gz": "thinned out: work waits 295 ms behind kernels that were left out",
    "tracelens_mi300_sglang_decode.json.gz": "463 ms behind unrecorded work",
    "tracelens_mi300_vllm_graph.json.gz": "the graph waits 7.8 ms behind unrecorded work",
}
"""Traces whose replay misses by more than 0.5 %, and why."""


def test_real_traces_are_replayed_to_within_half_a_percent_or_for_a_known_reason(shared: Path) -> None:
    files = [
        *sorted((shared / "traces").glob("*.json.gz")),
        *sorted((shared / "traces" / "param_dlrm_8ranks").iterdir()),
    ]
    errors = {file.name: baseline_error(read(file)) for file in files}

    wrong = {name for name, error in errors.items() if error is not None and abs(error) > 0.005}

    assert wrong == set(UNEXPLAINED)
    assert sum(error is not None for error in errors.values()) >= 25
