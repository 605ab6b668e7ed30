"""JAX's profiles: both of its files give the same trace, kernels count once, picoseconds become nanoseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.optable import op_table
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.totals import totals
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.totals import CopyTotals
from profiler_doctor.analyzer.trace import Trace
from tests import built_xla
from tests.conftest import ROOT
from tests.plain_profiles import xplane_device_numbers, xplane_events

CPU_RUN = ROOT / "tests" / "data" / "jax_cpu.xplane.pb"
CPU_RUN_JSON = ROOT / "tests" / "data" / "jax_cpu_perfetto_trace.json.gz"
"""Four steps of a small model on the CPU, one recording in both of JAX's formats (made with JAX 0.10.2)."""


@pytest.fixture
def mi300(shared: Path) -> Path:
    return shared / "traces" / "tracelens_mi300_jax_conv.xplane.pb"


def _all(trace: Trace) -> list[tuple[object, ...]]:
    events = trace.events
    return sorted(
        (events.category_of(row), events.name_of(row), events.threads[events.thread[row]][1],
         int(events.start_ns[row]), int(events.dur_ns[row]))
        for row in range(len(events))
    )  # fmt: skip


def test_both_files_of_one_recording_give_the_same_events() -> None:
    binary, text = read(CPU_RUN), read(CPU_RUN_JSON)
    assert len(binary.events) == len(xplane_events(CPU_RUN))
    assert _all(binary) == _all(text)


@pytest.mark.parametrize("path", [CPU_RUN, CPU_RUN_JSON], ids=["xplane", "json"])
def test_step_annotations_are_steps_and_computations_are_ops(path: Path) -> None:
    trace = read(path)
    assert steps(trace)["name"].tolist() == [f"ProfilerStep#{number}" for number in (7, 8, 9, 10)]
    counts = op_table(trace).set_index("name")["count"]
    assert (counts["ynn_fusion"], counts["my region"]) == (4, 4)
    assert {Has.STEPS, Has.OPS, Has.STACKS, Has.CPU_ONLY} <= trace.has


def test_an_xplane_says_which_jax_wrote_it_and_when() -> None:
    trace = read(CPU_RUN)
    assert trace.producer == "JAX 0.10.2"
    assert trace.base_ns == trace.metadata["profile_start_time"]


def test_every_event_of_a_real_xplane_is_there(mi300: Path) -> None:
    trace, plain = read(mi300), xplane_events(mi300)
    events = trace.events
    found = sorted(
        zip(events.names_at(range(len(events))), events.start_ns.tolist(), events.end_ns.tolist(), strict=True)
    )
    assert found == sorted((event.name, event.start_ps // 1000, event.end_ps // 1000) for event in plain)


def test_the_devices_of_a_real_xplane_are_as_busy_as_a_plain_walk_says(mi300: Path) -> None:
    trace, plain = read(mi300), xplane_device_numbers(mi300)
    whole, work = totals(trace), gpu_work(trace)
    assert {int(device): (part.kernels, part.busy_ns) for device, part in whole.devices.items()} == {
        device: (count, busy) for device, (count, _, busy) in plain.items()
    }
    assert work.groupby("device")["dur_ns"].sum().to_dict() == {device: time for device, (_, time, _) in plain.items()}
    assert (whole.kernels, len(plain)) == (235, 8)


def test_the_kernels_of_a_real_xplane_find_their_launches(mi300: Path) -> None:
    trace, plain = read(mi300), xplane_events(mi300)
    called = {event.correlation for event in plain if event.name.startswith("hip")}
    linked = [event for event in plain if event.line.startswith("Stream #") and event.correlation in called]
    assert int((gpu_work(trace)["launch"] >= 0).sum()) == len(linked) > 200
    assert trace.devices[3].multiprocessors == 304


def test_work_counts_once_though_four_lines_show_it(tmp_path: Path) -> None:
    trace = read(built_xla.jax_gpu_json(tmp_path))
    whole = totals(trace)
    assert (whole.kernels, whole.kernel_time_ns, whole.busy_kernels_ns) == (2, 3500, 3000)
    assert (whole.busy_ns, whole.span_ns, whole.idle_ns) == (3500, 4000, 500)
    assert whole.copies == {"Memcpy HtoD (Pinned -> Device)": CopyTotals(count=1, bytes=4096, time_ns=500)}
    assert whole.launches == 1
    assert gpu_work(trace)["stream"].tolist() == [7, 7, 8]
    assert len(trace.rows("xla_derived")) == 4
    assert trace.events.text("grid").table == ("[8, 1, 1]",)
    assert [(device.id, device.name) for device in trace.devices] == [(0, "NVIDIA H100")]


def test_picoseconds_are_rounded_down_so_that_neighbours_still_touch(tmp_path: Path) -> None:
    trace = read(built_xla.tpu_xplane(tmp_path))
    work = gpu_work(trace)
    assert work["name"].tolist() == ["fusion", "copy"]
    assert list(zip(work["start_ns"], work["end_ns"], strict=True)) == [(1000, 1001), (1001, 1002)]
    notes = {note.code: note for note in trace.health}
    assert notes["TIMES-FLOORED"].events == 4
    assert "2 events were dropped" in notes["PROFILER-SAYS"].message


def test_an_id_of_64_bits_keeps_its_digits_beside_one_that_fits(tmp_path: Path) -> None:
    column = read(built_xla.tpu_xplane(tmp_path)).events.text("run_id")
    assert column.table is not None
    assert sorted(column.table) == ["18446744073709551613", "7"]


def test_a_cut_xplane_gives_what_stands_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.pb"
    path.write_bytes(CPU_RUN.read_bytes()[:-2000])
    trace = read(path)
    whole = {row[1:] for row in _all(read(CPU_RUN)) if row[0] != "user_annotation"}
    assert 50 < len(trace.events) <= 137
    assert any(note.code == "TRUNCATED" for note in trace.health)
    assert {row[1:] for row in _all(trace) if row[1] and row[0] == "python_function"} <= whole
