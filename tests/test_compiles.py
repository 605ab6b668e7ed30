"""What torch.compile did: compilations with their ids, phases that add up, and frames that were compiled again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.compiles import compile_phases, compiled_regions, compiles, recompiles
from profiler_doctor.analyzer.reading import read
from tests.trace_builder import TraceBuilder


def compiled(builder: TraceBuilder, compile_id: str, start_ns: int, backend_ns: int = 40) -> TraceBuilder:
    """One compilation of 100 ns as torch 2.13 marks it, `backend_ns` of it in the backend."""
    builder.op("dynamo", start_ns, 100)
    builder.annotation(f"dynamo_data: compile_id={compile_id}", start_ns + 1, 1)
    builder.op("_compile.compile_inner (dynamo_timed)", start_ns + 5, 90)
    builder.op("backend_compile", start_ns + 10, backend_ns)
    builder.annotation(
        f"backend_compile_data: fn_name=OutputGraph.call_user_compiler, compile_id={compile_id}", start_ns + 11, 1
    )
    return builder.op("aten::mm", start_ns + 20, 10)


def test_a_compilation_is_its_outermost_slice_with_the_id_that_its_mark_tells(tmp_path: Path) -> None:
    trace = compiled(compiled(TraceBuilder().step(1, 0, 1000), "0/0", 100), "0/1", 400).trace(tmp_path)

    table = compiles(trace)

    assert table["name"].tolist() == ["dynamo", "dynamo"]
    assert table["dur_ns"].tolist() == [100, 100]
    assert table["compile_id"].tolist() == ["0/0", "0/1"]
    assert table[["frame", "turn", "step"]].to_numpy().tolist() == [[0, 0, 0], [0, 1, 0]]


def test_older_versions_time_compilations_without_saying_of_what(tmp_path: Path) -> None:
    trace = TraceBuilder().op("_compile.<locals>.compile_inner (dynamo_timed)", 10, 50).op("aten::mm", 20, 5)

    assert compiles(trace.trace(tmp_path))[["compile_id", "frame", "turn"]].to_numpy().tolist() == [["", -1, -1]]


def test_the_phases_own_times_add_up_to_the_compilations(tmp_path: Path) -> None:
    trace = compiled(TraceBuilder(), "0/0", 0, backend_ns=40).trace(tmp_path)

    table = compile_phases(trace).set_index("phase")

    assert table["time_ns"].to_dict() == {"_compile.compile_inner": 90, "backend_compile": 40, "dynamo": 100}
    assert table["self_ns"].to_dict() == {"_compile.compile_inner": 50, "backend_compile": 40, "dynamo": 10}


def test_a_phase_and_the_timed_slice_in_it_are_one(tmp_path: Path) -> None:
    builder = TraceBuilder().op("build_guards", 0, 100).annotation("build_guards_data: compile_id=3/2", 1, 2)
    trace = builder.op("build_guards (dynamo_timed)", 5, 90).trace(tmp_path)

    assert compile_phases(trace).to_numpy().tolist() == [["build_guards", 1, 100, 100]]


def test_an_ordinary_op_is_no_phase_because_its_name_is_common(tmp_path: Path) -> None:
    trace = TraceBuilder().op("gc", 0, 50).op("aten::mm", 60, 10).annotation("my_data: compile_id=x", 61, 2)

    assert len(compiles(trace.trace(tmp_path))) == 0


def test_frames_are_recompiled_where_a_second_version_is_made_or_called(tmp_path: Path) -> None:
    builder = compiled(compiled(TraceBuilder(), "0/0", 0), "0/1", 200)
    builder.op("Torch-Compiled Region: 0/1", 400, 20).op("Torch-Compiled Region: 1/0", 430, 20)
    trace = builder.op("Torch-Compiled Region: 2/3", 460, 20).trace(tmp_path)

    assert recompiles(trace).to_numpy().tolist() == [[0, 2, 1, 1, 100], [2, 1, 3, 0, 0]]


def test_compiled_regions_count_their_calls(tmp_path: Path) -> None:
    builder = TraceBuilder().op("Torch-Compiled Region: 10/0", 0, 20).op("Torch-Compiled Region: 2/0", 30, 5)
    trace = builder.op("Torch-Compiled Region: 2/0", 40, 7).trace(tmp_path)

    assert compiled_regions(trace).to_numpy().tolist() == [["2/0", 2, 0, 2, 12], ["10/0", 10, 0, 1, 20]]


def test_todays_torch_marks_its_compilations_as_we_expect(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    profiler = pytest.importorskip("torch.profiler")

    def double(x: object) -> object:
        return x * 2 + 1

    function = torch.compile(double, backend="eager", dynamic=False)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as recording:
        for size in (3, 4, 4):
            function(torch.ones(size))
    recording.export_chrome_trace(str(tmp_path / "trace.json"))
    torch._dynamo.reset()

    trace = read(tmp_path / "trace.json")

    assert compiles(trace)["turn"].tolist() == [0, 1]
    assert compiled_regions(trace)["calls"].tolist() == [1, 2]
    assert recompiles(trace)[["versions", "highest_turn", "in_trace"]].to_numpy().tolist() == [[2, 1, 1]]
    names = [event.get("name", "") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert sum(name == "dynamo" for name in names) == 2
