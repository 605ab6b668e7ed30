"""ONNX Runtime, Nsight Systems, rocprofv3: each in the trace's own terms, with totals worked out by hand."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from profiler_doctor.analyzer.errors import UnreadableTrace
from profiler_doctor.analyzer.formats import _documents
from profiler_doctor.analyzer.kinds import Has
from profiler_doctor.analyzer.measures.device import gpu_work
from profiler_doctor.analyzer.measures.host import host_calls
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.optable import op_table
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.measures.totals import totals
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.totals import CopyTotals, SyncTotals
from profiler_doctor.analyzer.trace import Trace
from tests import built_profiles
from tests.plain_profiles import nsys_calls, nsys_overhead


def _notes(trace: Trace) -> dict[str, int]:
    return {note.code: note.events for note in trace.health}


def test_an_nsight_export_has_the_times_of_its_tables(tmp_path: Path) -> None:
    whole = totals(read(built_profiles.nsys_schema_2(tmp_path)))
    assert (whole.kernels, whole.kernel_time_ns, whole.busy_kernels_ns) == (2, 3500, 3000)
    assert (whole.span_ns, whole.busy_ns, whole.idle_ns) == (4600, 3600, 1000)
    assert whole.copies == {"Memcpy HtoD (Pinned -> Device)": CopyTotals(count=1, bytes=4096, time_ns=1000)}
    assert (whole.launches, whole.syncs) == (2, SyncTotals(count=1, time_ns=7000))
    assert [(step.name, step.start_ns, step.dur_ns) for step in whole.steps] == [("ProfilerStep#1", 500, 9000)]


def test_calls_lose_their_version_and_drivers_are_told_from_the_runtime(tmp_path: Path) -> None:
    trace = read(built_profiles.nsys_schema_2(tmp_path))
    assert host_calls(trace)["name"].tolist() == [
        "cudaLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernel", "cudaDeviceSynchronize",
    ]  # fmt: skip
    assert len(trace.rows("cuda_driver")) == 1
    assert trace.events.threads[trace.events.thread[trace.rows("cuda_driver")[0]]] == (100, 101)


def test_the_ranges_of_emit_nvtx_are_ops_with_shapes_and_own_their_kernels(tmp_path: Path) -> None:
    trace = read(built_profiles.nsys_schema_2(tmp_path))
    row = op_table(trace).set_index("name").loc["aten::mm"]
    assert (row["count"], row["time_ns"], row["gpu_ns"]) == (1, 350, 2000)
    assert trace.events.text("Input Dims").table == ("[[2, 3], [3, 4]]",)
    assert trace.events.column("Sequence number").values.tolist() == [7]
    assert {Has.STEPS, Has.OPS, Has.KERNELS, Has.LAUNCHES, Has.SHAPES} <= trace.has


def test_what_an_nsight_export_holds_beside_is_counted(tmp_path: Path) -> None:
    assert _notes(read(built_profiles.nsys_schema_2(tmp_path))) == {"RANGE-OPEN": 1, "TABLES-NOT-READ": 3}


def test_processes_with_equal_ids_and_devices_are_told_apart(tmp_path: Path) -> None:
    trace = read(built_profiles.nsys_schema_3(tmp_path))
    devices = totals(trace).devices
    assert {number: (part.busy_ns, part.kernels) for number, part in devices.items()} == {"2": (2500, 2), "3": (400, 1)}
    work = gpu_work(trace)
    launched_by = {
        row.device: trace.events.threads[trace.events.thread[row.launch]][0]
        for row in work.itertuples()
        if row.launch >= 0
    }
    assert launched_by == {2: 100, 3: 200}
    assert work["name"].tolist() == ["void gemm<float>(float*)", "gemm", "CUDA graph 4"]


def test_an_nsight_export_tells_its_machine_its_clock_and_its_doubts(tmp_path: Path) -> None:
    trace = read(built_profiles.nsys_schema_3(tmp_path))
    assert (trace.base_ns, trace.producer) == (1_750_000_000_000_000_000, "Nsight Systems 2025.1 (schema 3.17.2)")
    assert [(device.id, device.multiprocessors) for device in trace.devices] == [(2, 132), (3, 132)]
    assert _notes(trace) == {"PROFILER-SAYS": 0, "RANGE-OPEN": 1, "GRAPHS-WHOLE": 1}
    assert "Events lost." in trace.health[0].message
    assert "someone" not in str(trace.metadata)
    assert trace.events.names_at(trace.rows("cuda_sync")) == ["Stream Sync"]


def test_the_real_nsight_export_equals_its_tables(shared: Path) -> None:
    path = shared / "traces" / "nsys_lighttransport.sqlite"
    trace = read(path)
    calls = host_calls(trace)
    assert list(calls[["name", "start_ns", "dur_ns", "correlation"]].itertuples(index=False, name=None)) == nsys_calls(
        path
    )
    rows = trace.rows("overhead")
    times = zip(trace.events.names_at(rows), trace.events.start_ns[rows], trace.events.dur_ns[rows], strict=True)
    assert list(times) == nsys_overhead(path)
    assert {"GPU-NOT-RECORDED", "PROFILER-SAYS"} <= set(_notes(trace))


def test_a_packed_nsight_export_is_read_too(tmp_path: Path) -> None:
    plain = built_profiles.nsys_schema_2(tmp_path)
    packed = tmp_path / "packed.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert totals(read(packed)) == totals(read(plain))


def test_an_nsight_export_is_opened_without_a_trace_of_us(tmp_path: Path) -> None:
    path = built_profiles.nsys_schema_2(tmp_path)
    before = (path.read_bytes(), sorted(tmp_path.iterdir()))
    read(path)
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


def test_an_export_without_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INT, value TEXT); CREATE TABLE NVTX_EVENTS (start INT, end INT)"
        )
    with pytest.raises(UnreadableTrace, match="without events"):
        read(path)


def test_a_rocprofv3_file_has_the_times_of_its_records(tmp_path: Path) -> None:
    trace = read(built_profiles.rocprof(tmp_path))
    whole = totals(trace)
    assert (whole.kernels, whole.kernel_time_ns, list(whole.devices)) == (1, 2000, ["2"])
    assert (whole.span_ns, whole.busy_ns, whole.idle_ns) == (3000, 2600, 400)
    assert whole.copies == {"Memcpy HtoD (Host -> Device)": CopyTotals(count=1, bytes=4096, time_ns=600)}
    assert (whole.launches, [step.name for step in whole.steps]) == (1, ["ProfilerStep#4"])
    assert [(device.id, device.name, device.multiprocessors) for device in trace.devices] == [(2, "MI300X", 304)]
    assert trace.events.text("grid").table == ("[4, 2, 1]",)  # 1024 x 2 work items in groups of 256 x 1
    assert _notes(trace)["TABLES-NOT-READ"] == 2


def test_two_processes_in_one_rocprofv3_file_keep_their_launches(tmp_path: Path) -> None:
    path = built_profiles.rocprof(tmp_path)
    document = json.loads(path.read_text())
    other = json.loads(json.dumps(document["rocprofiler-sdk-tool"][0]))
    other["metadata"]["pid"] = 200
    document["rocprofiler-sdk-tool"].append(other)
    path.write_text(json.dumps(document))
    trace = read(path)
    kernels = gpu_work(trace).query("kind == 'kernel'")
    assert sorted(trace.events.threads[trace.events.thread[row]][0] for row in kernels["launch"]) == [100, 200]


def test_the_nodes_of_a_real_profile_add_up(shared: Path) -> None:
    path = shared / "traces" / "ort_olive_profile.json.gz"
    written = json.loads(gzip.decompress(path.read_bytes()))
    trace = read(path)
    nodes = [event for event in written if event["name"].endswith("_kernel_time")]
    times: dict[str, int] = {}
    for node in nodes:
        times[node["args"]["op_name"]] = times.get(node["args"]["op_name"], 0) + node["dur"] * 1000
    assert op_table(trace).set_index("name")["time_ns"].to_dict() == times
    assert len(trace.rows("cpu_op")) == len(nodes) == 672
    assert len(trace.rows("ort_fence")) == 2 * 672
    runs = sorted((event["ts"], event["dur"]) for event in written if event["name"] == "model_run")
    assert steps(trace)["start_ns"].tolist() == [start * 1000 for start, _ in runs]
    assert "1254.702 ms" in next(note.message for note in trace.health if note.code == "WARM-UP")


def test_nodes_on_a_gpu_are_host_times_and_nothing_is_said_of_the_gpu(tmp_path: Path) -> None:
    trace = read(built_profiles.ort_on_gpu(tmp_path))
    assert _notes(trace) == {"GPU-NOT-RECORDED": 2, "WARM-UP": 1}
    said = next(note.message for note in trace.health if note.code == "GPU-NOT-RECORDED")
    assert "2 on CUDAExecutionProvider" in said
    assert Has.CPU_ONLY not in trace.has
    assert totals(trace).devices == {}


def test_the_nodes_of_a_subgraph_are_not_counted_twice(tmp_path: Path) -> None:
    table = ops(read(built_profiles.ort_on_gpu(tmp_path)))
    first_if = table[table["name"] == "If"].iloc[0]
    assert (first_if["dur_ns"], first_if["self_ns"]) == (200_000, 150_000)
    assert table["name"].tolist().count("Conv") == 2


def test_shapes_and_sizes_of_nodes_are_in_kineto_terms(tmp_path: Path) -> None:
    events = read(built_profiles.ort_on_gpu(tmp_path)).events
    assert events.text("Input Dims").table == ("[[1, 3, 8, 8], [4, 3, 1, 1]]",)
    assert events.text("Input type").table == ('["float", "float"]',)
    assert events.column("parameter_size").values.tolist() == [832, 832]


@pytest.mark.parametrize(
    ("change", "left", "notes"),
    [
        (lambda text: text.replace("\n]", ",\n]"), 6, set()),
        (lambda text: text[:-60], 5, {"TRUNCATED"}),
        (lambda text: text.replace('"name": "if_1', '"name": "i"f_1'), 5, {"EVENTS-DROPPED"}),
    ],
    ids=["a comma too many", "cut", "a quote in a name"],
)
def test_a_broken_profile_loses_only_what_is_named(tmp_path: Path, change, left: int, notes: set[str]) -> None:
    path = built_profiles.ort_on_gpu(tmp_path)
    path.write_text(change(path.read_text()))
    trace = read(path)
    assert len(trace.events) == left
    assert set(_notes(trace)) - {"GPU-NOT-RECORDED", "WARM-UP"} == notes


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_documents, "BOMB_BYTES", 1000)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'[{"cat": "Node", "ph": "X"}' + b" " * 1_000_000 + b"]"))
    with pytest.raises(UnreadableTrace, match="200 times its size"):
        read(path)


def test_the_autograd_export_has_ops_and_kernels_by_its_process_names(tmp_path: Path) -> None:
    trace = read(built_profiles.autograd_export(tmp_path))
    whole = totals(trace)
    assert (whole.kernels, whole.kernel_time_ns) == (1, 5000)
    assert op_table(trace)[["name", "time_ns"]].to_numpy().tolist() == [["aten::mm", 20_250]]
    assert "autograd profiler" in trace.producer
