"""An ONNX graph as the target of a run: its inputs, its recording, settings of its session, and what is refused."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from profiler_doctor.analyzer.capture import graphs, launch
from profiler_doctor.analyzer.capture.budget import Budget
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.child import onnx_recorder, onnx_session
from profiler_doctor.analyzer.capture.child.onnx_inputs import Unmakeable, made, wishes
from profiler_doctor.analyzer.capture.child.treat import Treatment
from profiler_doctor.analyzer.capture.child.turns import NO_MACHINE
from profiler_doctor.analyzer.capture.graphs import UnusableGraph
from profiler_doctor.analyzer.capture.record import capture
from profiler_doctor.analyzer.engine import Examination
from profiler_doctor.analyzer.errors import ScriptFailed
from profiler_doctor.analyzer.kinds import Fix, Root, Unsuitable
from profiler_doctor.analyzer.measures.nodes import graph_beside, node_runs
from profiler_doctor.analyzer.plugins import find
from profiler_doctor.analyzer.prescribe import to_try
from profiler_doctor.analyzer.reading import read
from tests import onnx_graphs

FIXES = {fix.name: fix for fix in find("profiler_doctor.fixes", Fix).items}


def _input(name: str, kind: str, *sizes: int | str | None) -> SimpleNamespace:
    return SimpleNamespace(name=name, type=f"tensor({kind})", shape=list(sizes))


def _shapes(*nodes: SimpleNamespace, **wished: str) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in made(np, nodes, wished)[0].items()}


def test_inputs_have_the_sizes_that_the_graph_names() -> None:
    arrays, said = made(np, [_input("x", "float16", 2, 5), _input("n", "int64")], {})
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "x": ("float16", (2, 5)),
        "n": ("int64", ()),
    }
    assert said == "The graph was given random inputs: x float16 2x5, n int64 scalar."


def test_open_sizes_are_a_batch_of_one_an_image_and_a_short_text_and_are_said() -> None:
    picture, text = _input("p", "float", "N", 3, "H", "W"), _input("ids", "int64", "batch", "sequence")
    assert _shapes(picture, text) == {"p": (1, 3, 224, 224), "ids": (1, 32)}
    _, said = made(np, [text], {})
    assert "these were chosen: batch=1, sequence=32. `-- batch=N` chooses another." in said


def test_an_open_size_without_a_name_is_chosen_for_each_input_alone() -> None:
    assert _shapes(_input("x", "float", None, -1), **{"x[1]": "7"}) == {"x": (1, 7)}


def test_sizes_and_whole_shapes_can_be_wished_for_and_one_size_holds_for_all_inputs() -> None:
    nodes = _input("x", "float", "batch", 4), _input("mask", "bool", "batch", "length")
    assert _shapes(*nodes, batch="8") == {"x": (8, 4), "mask": (8, 32)}
    assert _shapes(*nodes, mask="3x5") == {"x": (1, 4), "mask": (3, 5)}


def test_whole_numbers_are_0_or_1_so_that_they_are_an_index_anywhere() -> None:
    arrays, _ = made(np, [_input("ids", "int32", 1000), _input("mask", "bool", 1000)], {})
    assert set(arrays["ids"].tolist()) == {0, 1}
    assert set(arrays["mask"].tolist()) == {False, True}


@pytest.mark.parametrize(
    ("wished", "said"),
    [
        (["--fast"], "'--fast' is none"),
        (["x=3xwide"], "x=3xwide: sizes are whole numbers"),
        (["bacth=8"], "no input and no open size 'bacth'; it has x, batch"),
    ],
)
def test_a_wish_that_says_nothing_is_a_sentence(wished: list[str], said: str) -> None:
    with pytest.raises(Unmakeable, match=said):
        made(np, [_input("x", "float", "batch", 4)], wishes(wished))


def test_a_file_of_a_graph_is_run_by_our_own_program_and_a_script_by_python() -> None:
    graph = launch.Target(script="models/net.onnx", arguments=("batch=8",))
    assert graph.command == ("-m", launch.GRAPH_PROGRAM, "models/net.onnx", "batch=8")
    assert graph.name == "net.onnx"
    assert launch.Target(script="net.py").command == ("net.py",)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("graph")
    onnx_graphs.products(folder / "net.onnx")
    return _captured(folder)


def _captured(folder: Path, *arguments: str) -> Captured:
    target = launch.Target(script=str(folder / "net.onnx"), arguments=arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # the run folder is made where we are
        return capture(target, Options(budget=Budget.start(60.0), steps=4))


def test_a_graph_is_recorded_with_facts_and_a_profile_of_its_warm_runs(captured: Captured) -> None:
    facts = captured.facts
    assert facts.onnx is not None
    assert facts.onnx.ran == {"CPUExecutionProvider": 6}
    assert "x float32 1x8" in facts.onnx.inputs
    assert (len(facts.profiled_step_ns), len(facts.step_ns) == len(facts.step_cpu_ns) > 4) == (4, True)
    assert [root.calls for root in facts.roots] == [facts.warmup_steps + len(facts.step_ns) + 4]
    assert captured.script_exit is None
    assert captured.source is not None


def test_its_trace_holds_the_nodes_of_one_run_more_and_the_optimised_graph_lies_beside(captured: Captured) -> None:
    assert captured.trace_file is not None
    trace = read(captured.trace_file)
    runs = node_runs(trace)  # the first run counts as the warm-up of a profile that anybody else wrote
    assert runs.groupby("op").size().to_dict() == {"MatMul": 12, "Tanh": 12}
    assert set(graph_beside(trace)) == {f"{kind}{layer}" for kind in ("product", "tanh") for layer in range(3)}


def test_nothing_half_made_is_left_in_the_run_folder(captured: Captured) -> None:
    names = sorted(path.name for path in captured.folder.iterdir())
    assert names == ["environment.json", "facts.json", "optimized.onnx", "trace.json.gz"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("x=2x9",), r"net\.onnx: The graph does not run on the inputs .* Sizes may follow the file"),
     (("width=3",), r"net\.onnx: The graph has no input and no open size 'width'")],
)  # fmt: skip
def test_inputs_that_do_not_fit_end_in_a_sentence_and_leave_no_folder(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx_graphs.products(tmp_path / "net.onnx")
    with pytest.raises(UnusableGraph, match=said):
        _captured(tmp_path, *arguments)
    assert not list((tmp_path / ".profiler-doctor").glob("2*"))


def test_a_graph_of_text_and_a_file_that_is_no_graph_are_sentences_of_exit_code_2(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx_graphs.of_text(tmp_path / "net.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no graph at all")
    assert _refusal(tmp_path, "net.onnx").startswith("The graph's input x is a tensor(string)")
    assert "cannot load broken.onnx" in _refusal(tmp_path, "broken.onnx")
    run = _ours(tmp_path, "run", "broken.onnx")
    assert (run.returncode, "Traceback" in run.stderr) == (2, False)
    assert "broken.onnx: ONNX Runtime" in " ".join(run.stderr.split())


def test_without_onnx_runtime_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install onnxruntime" in _refusal(tmp_path, "net.onnx")


def test_a_process_that_crashes_in_the_runtime_is_a_sentence_that_names_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    (tmp_path / "crash.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", encoding="utf-8")
    monkeypatch.setattr(graphs, "RECORDER", "crash")
    with pytest.raises(ScriptFailed, match=r"ran net\.onnx in ONNX Runtime was killed by SIGSEGV"):
        _captured(tmp_path)


def _refusal(folder: Path, name: str) -> str:
    onnx_recorder.main([str(folder / name), str(folder), "2", "20"])
    said = json.loads((folder / onnx_recorder.RECORDED).read_text(encoding="utf-8"))
    assert set(said) == {"refused"}
    return str(said["refused"])


def test_a_graph_as_a_module_answers_as_the_session_does_in_every_setting_and_copy(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = str(onnx_graphs.products(tmp_path / "net.onnx"))
    x = np.random.default_rng(1).standard_normal((2, 8)).astype("float32")
    [expected] = runtime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})

    graph = onnx_session.as_module(model, {"x": x}, {})
    other = graph.changed(intra_op_num_threads=1, graph_optimization_level="ORT_ENABLE_BASIC")

    for module in (graph, other, copy.deepcopy(other)):
        [answer] = module(torch.from_numpy(x))
        np.testing.assert_allclose(answer.numpy(), expected, rtol=1e-5)
    assert graph.note == "ran on CPU (6 nodes)"
    assert other.changed(enable_mem_pattern=False).settings == {
        "intra_op_num_threads": 1,
        "graph_optimization_level": "ORT_ENABLE_BASIC",
        "enable_mem_pattern": False,
    }


def test_settings_of_several_fixes_meet_in_one_session(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    x = np.ones((2, 8), "float32")
    graph = onnx_session.as_module(str(onnx_graphs.products(tmp_path / "net.onnx")), {"x": x}, {})
    given = (torch.from_numpy(x),)
    fixes = tuple(FIXES[name] for name in ("session-one-thread", "session-extended", "session-no-memory-pattern"))
    treatment = Treatment(torch, fixes, NO_MACHINE, lambda *_, **__: None)

    call = treatment.of(Root(graph, given, {}, graph._call_impl))

    assert torch.allclose(call(*given)[0], graph(*given)[0])
    last = fixes[0].treat
    assert last is not None
    with last(Root(graph.changed(enable_mem_pattern=False), given, {}, graph._call_impl)) as stand_in:
        assert stand_in.module.settings == {"enable_mem_pattern": False, "intra_op_num_threads": 1}  # type: ignore[attr-defined]
    assert graph.settings == {}


def test_a_setting_that_the_session_does_not_take_is_unsuitable(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from profiler_doctor.fixes._session import in_session

    x = np.ones((2, 8), "float32")
    graph = onnx_session.as_module(str(onnx_graphs.products(tmp_path / "net.onnx")), {"x": x}, {})
    with pytest.raises(Unsuitable, match="ONNX Runtime does not take it"):
        in_session(Root(graph, (), {}, graph._call_impl), {"graph_optimization_level": "ORT_ENABLE_MAGIC"})


def test_a_graph_is_tried_in_all_settings_of_its_session_and_a_script_in_none() -> None:
    nothing_found = Examination(outcomes=(), health=(), joint=None)
    of_graph = {fix.name for fix in to_try(nothing_found, tuple(FIXES.values()), graph=True)}
    assert of_graph == {name for name in FIXES if name.startswith("session-")}
    assert to_try(nothing_found, tuple(FIXES.values())) == ()


def _ours(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profiler_doctor", words[0], "--quiet", "--budget", "120", *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_subnormal_numbers_in_a_graph_are_slow_and_flushing_them_is_verified(tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime", "torch"):
        pytest.importorskip(package)
    onnx_graphs.subnormal(tmp_path / "net.onnx")

    fixes = "session-flush-denormals,compile"
    document = json.loads(_ours(tmp_path, "verify", "--fix", fixes, "--format", "json", "net.onnx").stdout)

    verdicts = {trial["fix"]: trial["verdict"] for trial in document["trials"]}
    assert verdicts == {"session-flush-denormals": "verified", "compile": "not_tried"}
