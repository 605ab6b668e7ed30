"""The timeline: the last steps as lanes, thinned out, with exact busy times."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.measures.lanes import MOST_SLICES, timeline
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import empty_trace
from tests.trace_builder import TraceBuilder


def test_streams_come_first_and_every_slice_is_where_it_was(tmp_path: Path) -> None:
    built = TraceBuilder().step(1, 1_000, 10_000).op("aten::mm", 2_000, 3_000)
    trace = built.launch("k", (2_500, 500), (6_000, 2_000)).trace(tmp_path)

    found = timeline(trace)

    assert found is not None
    assert (found.start_ns, found.end_ns, found.left_out) == (1_000, 11_000, 0)
    stream, thread = found.lanes
    assert (stream.kind, stream.busy_ns, stream.starts_ns, stream.durs_ns) == ("stream", 2_000, (5_000,), (2_000,))
    assert [found.names[name] for name in stream.names] == ["k"]
    told = zip(thread.starts_ns, thread.durs_ns, thread.depths, (found.names[n] for n in thread.names), strict=True)
    assert sorted(told) == [(0, 10_000, 0, "ProfilerStep#1"), (1_000, 3_000, 1, "aten::mm")]


def test_of_many_steps_only_the_last_three_are_drawn(tmp_path: Path) -> None:
    built = TraceBuilder()
    for step in range(6):
        built.step(step, step * 1_000, 1_000).op("aten::mm", step * 1_000 + 100, 100)

    found = timeline(built.trace(tmp_path))

    assert found is not None
    assert (found.start_ns, found.end_ns) == (3_000, 6_000)


def test_of_many_slices_the_longest_stay_and_the_others_are_drawn_together(tmp_path: Path) -> None:
    built = TraceBuilder()
    for place in range(3 * MOST_SLICES):
        built.op(f"aten::op{place % 7}", place * 100, 90 if place % 100 else 95)

    found = timeline(built.trace(tmp_path))

    assert found is not None
    (lane,) = found.lanes
    assert lane.busy_ns == 3 * MOST_SLICES * 90 + 3 * MOST_SLICES // 100 * 5
    assert len(lane.starts_ns) <= MOST_SLICES
    assert sum(dur == 95 for dur in lane.durs_ns) == 3 * MOST_SLICES // 100
    assert -1 in lane.names
    assert found.left_out == 3 * MOST_SLICES - len(lane.starts_ns)


def test_a_trace_without_work_has_no_timeline(tmp_path: Path) -> None:
    assert timeline(empty_trace("nothing")) is None


def test_a_real_training_step_fits(shared: Path) -> None:
    found = timeline(read(shared / "traces" / "hta_a100_nccl_resnet.json.gz"))

    assert found is not None
    assert [lane.kind for lane in found.lanes] == ["stream", "stream", "thread", "thread"]
    assert sum(len(lane.starts_ns) for lane in found.lanes) <= MOST_SLICES
    assert all(lane.busy_ns <= found.end_ns - found.start_ns for lane in found.lanes)
