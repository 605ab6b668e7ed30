"""ONNX Runtime as a fix: what is exported, what really ran, and engines of TensorRT kept for the next time."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes import _onnx, _tensorrt_cache  # noqa: E402
from profiler_doctor.fixes._tensorrt_cache import CARD, BuiltFor, check, engine_folder  # noqa: E402
from profiler_doctor.fixes.onnx_runtime import FIX as ONNX  # noqa: E402

MACHINE = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=False)
BUILT = BuiltFor(model="abc", gpu="H200", driver="595", tensorrt="11.4", options="fp16")


class Branches(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1


class Named(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any, *, scale: float, ids: Any) -> Any:
        return {"y": self.linear(x) * scale, "best": ids.argmax(-1)}


def _root(module: Any, *args: Any, **kwargs: Any) -> Root:
    return Root(module, args, kwargs, module._call_impl)


def test_where_packages_are_missing_it_is_not_tried_and_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_onnx, "find_spec", lambda name: None if name.startswith("onnxr") else name)
    assert ONNX.applies(MACHINE) == "onnxruntime not installed: pip install onnx onnxruntime onnxscript"


def test_names_numbers_and_structures_survive_and_the_provider_that_ran_is_told() -> None:
    pytest.importorskip("onnxruntime")
    model, x, ids = Named().eval(), torch.rand(2, 4), torch.tensor([[1, 3, 2]])
    with torch.no_grad(), ONNX.treat(_root(model, x, scale=2.0, ids=ids)) as call:
        found, expected = call(x + 1, scale=2.0, ids=ids), model(x + 1, scale=2.0, ids=ids)
    assert list(found) == ["y", "best"]
    assert torch.allclose(found["y"], expected["y"], atol=1e-5)
    assert torch.equal(found["best"], expected["best"])
    assert call.note.startswith("ran on CPU (")


def test_a_branch_on_data_is_refused_by_the_exporter() -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(Unsuitable, match="cannot be exported to ONNX"), ONNX.treat(_root(Branches(), torch.ones(2))):
        pass


def test_providers_are_counted_by_the_nodes_that_they_ran(tmp_path: Path) -> None:
    nodes = [{"cat": "Node", "args": {"provider": f"{name}ExecutionProvider"}} for name in ("CUDA", "CPU", "CUDA")]
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps([{"cat": "Session", "args": {}}, {"cat": "Node", "args": {}}, *nodes]))
    assert _onnx.providers_of(profile) == {"CUDAExecutionProvider": 2, "CPUExecutionProvider": 1}


def test_on_a_gpu_tensorrt_is_asked_first_with_a_folder_for_its_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = ["CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"]
    runtime = SimpleNamespace(get_available_providers=lambda: there)
    gpu = SimpleNamespace(type="cuda", index=1)
    asked = _onnx._providers(runtime, b"graph", gpu)
    assert [name for name, _ in asked] == there[::-1]
    assert asked[0][1]["device_id"] == 1
    assert Path(asked[0][1]["trt_engine_cache_path"]).is_relative_to(tmp_path)
    assert _onnx._providers(runtime, b"graph", SimpleNamespace(type="cpu", index=None)) == ["CPUExecutionProvider"]


@pytest.mark.parametrize("part", list(asdict(BUILT)))
def test_an_engine_for_anything_else_has_another_folder(part: str) -> None:
    assert replace(BUILT, **{part: "other"}).key != BUILT.key
    assert replace(BUILT).key == BUILT.key


def test_an_engine_that_was_moved_here_from_another_gpu_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_tensorrt_cache, "_gpu", lambda: "NVIDIA H200")
    folder = engine_folder(b"graph")
    assert engine_folder(b"graph") == folder
    card = folder / CARD
    card.write_text(json.dumps({**json.loads(card.read_text()), "gpu": "NVIDIA A100"}))
    with pytest.raises(Unsuitable, match=r"built for another GPU \(NVIDIA A100, and this is NVIDIA H200\); delete"):
        engine_folder(b"graph")


def test_an_engine_for_this_very_place_is_taken(tmp_path: Path) -> None:
    card = tmp_path / CARD
    card.write_text(json.dumps(asdict(BUILT)))
    check(card, BUILT)
    with pytest.raises(Unsuitable, match="another driver"):
        check(card, replace(BUILT, driver="600"))
