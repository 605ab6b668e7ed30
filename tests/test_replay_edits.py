"""Copies set aside, launches joined, launches that no longer wait: numbers worked out by hand, in nanoseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Edit
from profiler_doctor.analyzer.measures.intervals import union_ns
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.replay import baseline_error, stake_of
from profiler_doctor.analyzer.replay.score import score_of
from profiler_doctor.analyzer.trace import Trace
from tests.trace_builder import TraceBuilder

COPY = "Memcpy HtoD (Pinned -> Device)"


def row(trace: Trace, name: str, which: int = 0) -> int:
    """The event row of the given occurrence of a name."""
    return [place for place in range(len(trace.events)) if trace.events.name_of(place) == name][which]


def copy_then_kernel(folder: Path, step_ns: int) -> Trace:
    """A copy of 40 µs, 2 µs after its launch; a kernel of 30 µs is launched at once and waits for it on its stream."""
    built = TraceBuilder().step(1, 0, step_ns).launch(COPY, (2_000, 2_000), (6_000, 40_000))
    return built.launch("kernel", (5_000, 2_000), (47_500, 30_000)).trace(folder)


@pytest.mark.parametrize(
    ("step_ns", "left_ns"),
    [
        (50_000, 50_000),  # the kernel runs from 7 + 2 to 39 µs: the host, done at 50 µs, is last
        (30_000, 40_000),  # the host is done at 30, the kernel at 39 µs, but the copy itself takes 40
    ],
)
def test_a_copy_set_aside_holds_nothing_up_and_still_takes_its_own_time(
    tmp_path: Path, step_ns: int, left_ns: int
) -> None:
    trace = copy_then_kernel(tmp_path, step_ns)

    stake = stake_of(trace, [Edit(aside=(row(trace, COPY),))])

    assert baseline_error(trace) == 0.0
    assert stake.ns_per_step == 77_500 - left_ns


def test_joined_work_loses_the_dispatch_of_its_op_and_not_the_python_before_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("first", (10_000, 2_000), (14_000, 5_000))
    built.op("aten::add", 35_000, 8_000)
    trace = built.launch("second", (40_000, 2_000), (44_000, 5_000)).trace(tmp_path)

    stake = stake_of(trace, [Edit(joined=(row(trace, "second"),))])

    assert stake.ns_per_step == 8_000


def test_joined_work_starts_right_behind_the_work_before_it(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 20_000).launch("first", (10_000, 2_000), (14_000, 5_000))
    trace = built.launch("second", (18_000, 2_000), (24_000, 5_000)).trace(tmp_path)

    stake = stake_of(trace, [Edit(joined=(row(trace, "second"),))])

    # without its launch it is ready at 18 µs, and follows the first one, which ends at 19 µs, by 1 µs
    assert stake.ns_per_step == 29_000 - (19_000 + 1_000 + 5_000)


def test_a_launch_that_no_longer_waits_for_its_kernel_lets_the_host_run_ahead(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 0, 100_000).launch("first", (10_000, 40_000), (14_000, 35_000))
    trace = built.launch("second", (60_000, 30_000), (64_000, 25_000)).trace(tmp_path)
    launches = (row(trace, "cudaLaunchKernel"), row(trace, "cudaLaunchKernel", 1))

    stake = stake_of(trace, [Edit(free=launches)])

    # the calls take 2 µs each, the first kernel still runs from 14 to 49, the second follows it at the usual 1.5 µs
    assert stake.ns_per_step == 100_000 - (49_000 + 1_500 + 25_000)


def test_edits_of_several_findings_are_one_edit(tmp_path: Path) -> None:
    trace = copy_then_kernel(tmp_path, 50_000)
    aside, joined = Edit(aside=(row(trace, COPY),)), Edit(joined=(row(trace, "kernel"),))

    together = stake_of(trace, [aside, joined, aside])

    # the kernel's launch goes (2 µs), so the host is done at 48 µs, when the copy (40 µs) and the kernel are over
    assert together.ns_per_step == 77_500 - 48_000


@pytest.mark.parametrize("name", ["hta_a100_nccl_resnet", "tracelens_b200_vllm_eager", "tracelens_h100_qwen05b"])
def test_no_edit_brings_more_than_the_window_less_the_work_that_stays(shared: Path, name: str) -> None:
    trace = read(shared / "traces" / f"{name}.json.gz")
    work, score = linked_work(trace), score_of(trace)
    assert score is not None
    copies = (work["kind"] == "memcpy").to_numpy()
    staying = work[~copies]
    everything = Edit(
        no_launch_gaps=True,
        aside=tuple(work["row"][copies].tolist()),
        joined=tuple(staying["row"].tolist()),
        free=tuple(score.calls.row.tolist()),
    )

    stake = stake_of(trace, [everything])

    kept = union_ns(staying["start_ns"].to_numpy(), staying["end_ns"].to_numpy())
    assert stake.ns_per_step is not None
    assert 0 < stake.ns_per_step * score.window.per <= score.recorded_ns - kept
