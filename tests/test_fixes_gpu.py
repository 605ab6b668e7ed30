"""Fixes for GPUs, as far as they can be told without one: what they ask for, and TensorRT by a stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable  # noqa: E402
from profiler_doctor.fixes import _tensorrt, _tensorrt_cache  # noqa: E402
from profiler_doctor.fixes._engine import handed_over  # noqa: E402
from profiler_doctor.fixes._tensorrt_shapes import extents  # noqa: E402
from profiler_doctor.fixes.cuda_graphs import FIX as GRAPHS  # noqa: E402
from profiler_doctor.fixes.expandable_segments import FIX as SEGMENTS  # noqa: E402
from profiler_doctor.fixes.non_blocking_copies import FIX as COPIES  # noqa: E402
from profiler_doctor.fixes.static_cache import FIX as CACHE  # noqa: E402
from profiler_doctor.fixes.tensorrt import FIX as TENSORRT  # noqa: E402
from profiler_doctor.fixes.tf32 import FIX as TF32  # noqa: E402

GPU = Machine(device="cuda", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=False)
CPU = Machine(device="cpu", torch="2", cpu_flags=frozenset(), cpus=2, threads=2, has_root=True, training=False)


def test_none_of_them_is_tried_on_a_cpu() -> None:
    said = {fix.applies(CPU) for fix in (TF32, GRAPHS, SEGMENTS, COPIES, TENSORRT)}
    assert said == {"the work does not run on a CUDA GPU"}


@pytest.mark.parametrize(
    ("capability", "allowed"), [((7, 5), False), ((8, 0), True), ((9, 0), True)], ids=["Turing", "Ampere", "Hopper"]
)
def test_tf32_is_for_ampere_and_later(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], allowed: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    before = torch.get_float32_matmul_precision()
    assert TF32.set_up is not None
    if allowed:
        with TF32.set_up(GPU):
            assert torch.get_float32_matmul_precision() == "high"
    else:
        with pytest.raises(Unsuitable, match="no TF32"), TF32.set_up(GPU):
            pass
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("set_by_user", "expected"),
    [
        ("", "expandable_segments:True"),
        ("max_split_size_mb:64", "max_split_size_mb:64,expandable_segments:True"),
        ("expandable_segments:False", "expandable_segments:True"),
    ],
)
def test_the_allocators_other_options_stay(monkeypatch: pytest.MonkeyPatch, set_by_user: str, expected: str) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", set_by_user)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    assert SEGMENTS.environment(GPU) == {"PYTORCH_CUDA_ALLOC_CONF": expected}


def test_copies_to_a_gpu_are_pinned_and_not_waited_for_and_all_others_are_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *args, **kwargs: made.append(("to", args, kwargs)))
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self, *args, **kwargs: made.append(("cuda", args, kwargs)))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: made.append("pinned") or self)
    x = torch.ones(2)
    assert COPIES.set_up is not None
    with COPIES.set_up(GPU):
        for place in ("cuda:1", torch.device("cuda"), 0):
            x.to(place)
        x.cuda()
        x.to("cpu")
        x.to(torch.float64)
        x.to(device="cuda")
    gpu = {"non_blocking": True}
    assert made == [
        "pinned", ("to", ("cuda:1",), gpu), "pinned", ("to", (torch.device("cuda"),), gpu), "pinned", ("to", (0,), gpu),
        "pinned", ("cuda", (), gpu), ("to", ("cpu",), {}), ("to", (torch.float64,), {}),
        "pinned", ("to", (), {"device": "cuda", **gpu}),
    ]  # fmt: skip


def test_a_tensor_that_is_not_on_the_gpu_cannot_be_part_of_a_graph() -> None:
    model = torch.nn.Linear(2, 2)
    root = Root(model, (torch.ones(1, 2),), {}, model._call_impl)
    with pytest.raises(Unsuitable, match="not on the GPU"), GRAPHS.treat(root):
        pass


def test_generation_is_asked_for_a_static_cache_and_asked_as_before_afterwards() -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(Unsuitable, match="no generation_config"), CACHE.treat(Root(model, (), {}, model)):
        pass
    model.generation_config = SimpleNamespace(cache_implementation=None)
    with CACHE.treat(Root(model, (), {}, model)):
        assert model.generation_config.cache_implementation == "static"
    assert model.generation_config.cache_implementation is None


class FakeTensorRT:
    """What the adapter uses of the package. Its engine doubles what it is given, through addresses of tensors."""

    Logger = type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None})
    NetworkDefinitionCreationFlag = SimpleNamespace(EXPLICIT_BATCH=0)
    MemoryPoolType = SimpleNamespace(WORKSPACE="workspace")
    BuilderFlag = SimpleNamespace(FP16="fp16", INT8="int8")
    IInt8EntropyCalibrator2 = type("IInt8EntropyCalibrator2", (), {})
    TensorIOMode = SimpleNamespace(INPUT="in", OUTPUT="out")

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.readable = True

    def Builder(self, _logger: Any) -> Any:  # noqa: N802  # as the package calls it
        note = self.asked.append
        config = SimpleNamespace(
            set_memory_pool_limit=lambda pool, size: note((pool, size)),
            add_optimization_profile=lambda profile: None,
            set_flag=note,
            set_calibration_profile=lambda profile: note("calibrated for the profile"),
            int8_calibrator=None,
        )
        return SimpleNamespace(
            create_network=lambda flags: SimpleNamespace(get_input=lambda place: SimpleNamespace(name=f"x{place}")),
            create_builder_config=lambda: config,
            create_optimization_profile=lambda: SimpleNamespace(set_shape=lambda *shape: note(shape)),
            build_serialized_network=lambda network, config: self.built(config.int8_calibrator),
        )

    def built(self, calibrator: Any) -> bytes:
        """Calibrates as the package does: a cache that is there, or batches until there is none."""
        if calibrator is not None and calibrator.read_calibration_cache() is None:
            names = [asked[0] for asked in self.asked if len(asked) == 4 and asked[0] in ("x0", "x1")]
            while batch := calibrator.get_batch(names[::-1]):
                self.asked.append((calibrator.get_batch_size(), batch))
            calibrator.write_calibration_cache(memoryview(b"ranges"))
        return b"plan"

    def OnnxParser(self, _network: Any, _logger: Any) -> Any:  # noqa: N802
        return SimpleNamespace(parse=lambda graph: graph != b"bad", get_error=lambda place: "an op of no kind")

    def Runtime(self, _logger: Any) -> Any:  # noqa: N802
        return SimpleNamespace(deserialize_cuda_engine=lambda plan: plan if self.readable else None)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTensorRT:
    package = FakeTensorRT()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tensorrt", package)
    return package


def test_an_engine_is_built_for_the_shape_at_hand_once_and_then_kept(fake: FakeTensorRT) -> None:
    x = torch.ones(2, 3)
    assert _tensorrt.kept_engine(b"graph", [x], "FP16") == b"plan"
    assert fake.asked == [("workspace", 1 << 30), ("x0", (2, 3), (2, 3), (2, 3)), "fp16"]
    fake.asked.clear()
    assert _tensorrt.kept_engine(b"graph", [x], "FP16") == b"plan"
    assert fake.asked == []
    _tensorrt.kept_engine(b"graph", [x])
    assert len(fake.asked) == 2


def test_an_engine_of_another_gpu_or_one_that_cannot_be_read_is_refused(
    fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tensorrt.kept_engine(b"graph", [])
    fake.readable = False
    with pytest.raises(Unsuitable, match=r"cannot be read here; delete .* to build it anew"):
        _tensorrt.kept_engine(b"graph", [])
    fake.readable = True
    monkeypatch.setattr(_tensorrt_cache, "_gpu", lambda: "another GPU")
    _tensorrt.kept_engine(b"graph", [])
    assert len(fake.asked) == 2  # built anew, in a folder of its own


def test_eight_bits_are_calibrated_once_on_the_inputs_at_hand_by_their_names(
    fake: FakeTensorRT, tmp_path: Path
) -> None:
    first, second = torch.ones(4, 3), torch.ones(4)
    _tensorrt.kept_engine(b"graph", [first, second], "INT8")
    assert fake.asked[3:] == ["int8", "calibrated for the profile", (4, [second.data_ptr(), first.data_ptr()])]
    (ranges,) = tmp_path.rglob("calibration.cache")
    assert ranges.read_bytes() == b"ranges"
    fake.asked.clear()
    (ranges.parent / "engine.plan").unlink()
    _tensorrt.kept_engine(b"graph", [first, second], "INT8")
    assert fake.asked[3:] == ["int8", "calibrated for the profile"]  # built anew from the ranges that were kept


def test_the_key_of_an_engine_tells_its_precision_and_profile(fake: FakeTensorRT, tmp_path: Path) -> None:
    for precision, shape in (("", (2, 3)), ("FP16", (2, 3)), ("INT8", (2, 3)), ("", (4, 3))):
        fake.asked.clear()
        _tensorrt.kept_engine(b"graph", [torch.ones(shape)], precision)
    options = {json.loads(card.read_text(encoding="utf-8"))["options"] for card in tmp_path.rglob("built-for.json")}
    assert options == {
        f"precision={told} workspace=1073741824 profile={shape}"
        for told, shape in (("FP32", "2x3"), ("FP16", "2x3"), ("INT8", "2x3"), ("FP32", "4x3"))
    }


@pytest.mark.parametrize("precision", ["FP16", "INT8"])
def test_a_version_of_tensorrt_without_flags_for_precision_is_told_in_a_sentence(
    fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    monkeypatch.setattr(fake, "BuilderFlag", SimpleNamespace(), raising=False)
    monkeypatch.setattr(fake, "NetworkDefinitionCreationFlag", SimpleNamespace(), raising=False)
    with pytest.raises(Unsuitable, match=f"has no {precision}; convert the graph, or install a version before 11"):
        _tensorrt.kept_engine(b"graph", [torch.ones(2)], precision)
    assert _tensorrt.kept_engine(b"graph", [torch.ones(2)]) == b"plan"


def test_a_graph_that_tensorrt_cannot_read_is_told_with_its_reason(fake: FakeTensorRT) -> None:
    with pytest.raises(Unsuitable, match="cannot read its graph: an op of no kind"):
        _tensorrt.kept_engine(b"bad", [])


def test_the_engine_runs_on_torchs_own_memory_and_stream(fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    told: list[Any] = []
    context = SimpleNamespace(
        set_input_shape=lambda name, shape: told.append((name, shape)),
        set_tensor_address=lambda name, address: told.append((name, address)),
        execute_async_v3=told.append,
    )
    engine = SimpleNamespace(
        num_io_tensors=2,
        get_tensor_name=lambda place: ("x", "y")[place],
        get_tensor_mode=lambda name: {"x": "in", "y": "out"}[name],
        create_execution_context=lambda: context,
    )
    x = torch.ones(2, 3)
    call = _tensorrt.EngineCall(engine, [torch.empty(2, 1)], [x], extents([(2, 3)]))
    (y,) = call(x)
    assert told == [("x", (2, 3)), ("x", x.data_ptr()), ("y", y.data_ptr()), 7]
    assert y.shape == (2, 1)
    assert call.fits([x])
    assert not call.fits([torch.ones(4, 3)])
    assert not call.fits([x.double()])


def test_an_engine_for_a_range_is_told_each_inputs_shape_and_asked_for_its_outputs(
    fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    shapes: dict[str, tuple[int, ...]] = {}
    context = SimpleNamespace(
        set_input_shape=shapes.__setitem__,
        get_tensor_shape=lambda name: (shapes["x"][0], 1),
        set_tensor_address=lambda name, address: None,
        execute_async_v3=lambda stream: None,
    )
    engine = SimpleNamespace(
        num_io_tensors=2,
        get_tensor_name=lambda place: ("x", "y")[place],
        get_tensor_mode=lambda name: {"x": "in", "y": "out"}[name],
        create_execution_context=lambda: context,
    )
    ranges = extents([(2, 3)], ["8x3", "1x3"])
    call = _tensorrt.EngineCall(engine, [torch.empty(2, 1)], [torch.ones(2, 3)], ranges)
    assert [tuple(call(torch.ones(rows, 3))[0].shape) for rows in (8, 1)] == [(8, 1), (1, 1)]
    assert call.fits([torch.ones(5, 3)])
    assert not call.fits([torch.ones(9, 3)])


def test_the_range_of_each_input_is_that_of_the_calls_seen_which_have_as_many_of_them() -> None:
    first, second = extents([(4, 3, 96), (4,)], ["8x3x64 8", "2x3x128 2", "2x3x64", "3x64 scalar"])
    assert (first.least, first.usual, first.most) == ((2, 3, 64), (4, 3, 96), (8, 3, 128))
    assert (first.axes, second.axes) == ((0, 2), (0,))
    assert str(first) == "2x3x64..4x3x96..8x3x128"
    assert str(extents([(), (2,)], ["scalar 2"])[0]) == "scalar"


class Model(torch.nn.Module):
    """Works on any number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        """Two numbers a row."""
        return self.layer(x)


class Built:
    """What an engine was asked for in the place of TensorRT, and an engine that does the model's own work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
        self.asked: list[tuple[Any, ...]] = []
        monkeypatch.setattr(_tensorrt, "exported", self._exported)
        monkeypatch.setattr(_tensorrt, "kept_engine", lambda *asked: self.asked.append(asked))
        monkeypatch.setattr(_tensorrt.EngineCall, "__init__", _begin)
        monkeypatch.setattr(_tensorrt.EngineCall, "__call__", lambda _, *tensors: [work(*tensors)])
        self.any_shape = True

    def _exported(self, module: Any, tensors: Any, dynamic_shapes: Any = None) -> bytes:
        if dynamic_shapes is not None and not self.any_shape:
            raise Unsuitable("it cannot be exported to ONNX: a size is fixed")
        return b"any" if dynamic_shapes is not None else b"one"


def _begin(call: Any, engine: Any, outputs: Any, tensors: Any, ranges: Any) -> None:
    vars(call).update(_types=[tensor.dtype for tensor in tensors], _ranges=ranges)


@pytest.mark.parametrize(("any_shape", "engines"), [(True, 1), (False, 3)])
def test_one_engine_is_built_for_all_shapes_that_the_script_uses_where_the_model_allows_it(
    fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch, any_shape: bool, engines: int
) -> None:
    model = Model().eval()
    built = Built(monkeypatch, model)
    built.any_shape = any_shape
    root = Root(model, (torch.ones(4, 3),), {}, model._call_impl, signatures=("4x3", "2x3", "8x3"))
    with _tensorrt.in_engine(root) as call:
        assert [tuple(call(torch.ones(rows, 3)).shape) for rows in (4, 2, 8, 2)] == [(4, 2), (2, 2), (8, 2), (2, 2)]
        assert len(built.asked) == engines
        call(torch.ones(9, 3))  # was never seen
        assert len(built.asked) == engines + 1
    graph, _, precision, ranges = built.asked[0]
    assert (graph, precision) == (b"any" if any_shape else b"one", "")
    assert str(ranges[0]) == ("2x3..4x3..8x3" if any_shape else "4x3")


def test_float16_is_put_into_the_graph_where_tensorrt_has_no_flag_for_it(
    fake: FakeTensorRT, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, given = Model().eval(), list[Any]()
    built = Built(monkeypatch, model)
    monkeypatch.setattr(_tensorrt, "exported", lambda module, tensors: given.append(module) or b"graph")
    root = Root(model, (torch.ones(4, 3),), {}, model._call_impl)
    for flags, name in ((SimpleNamespace(FP16="fp16"), "Row"), (SimpleNamespace(), "Half")):
        monkeypatch.setattr(fake, "BuilderFlag", flags, raising=False)
        with _tensorrt.in_engine(root, "FP16"):
            assert type(given[-1]).__name__ == name
    assert [asked[2] for asked in built.asked] == ["FP16", ""]
    (output,) = given[-1](torch.ones(4, 3))
    assert output.dtype == torch.float32
    assert 0 < (output - model(torch.ones(4, 3))).abs().max() < 1e-2
    with pytest.raises(Unsuitable, match="has no INT8"), _tensorrt.in_engine(root, "INT8"):
        pass


def test_the_graph_for_a_range_gives_the_models_answers_for_every_shape_in_it() -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = Model().eval()
    root = Root(model, (torch.ones(4, 3),), {}, model._call_impl)
    graphs: list[bytes] = []

    def build(module: Any, tensors: Any) -> Any:
        module(*tensors)
        graph, ranges = _tensorrt._graph(module, tensors, ["2x3", "8x3"])
        graphs.append(graph)
        assert str(ranges[0]) == "2x3..4x3..8x3"
        return module

    handed_over(root, build)
    session = ort.InferenceSession(graphs[0], providers=["CPUExecutionProvider"])
    for rows in (2, 4, 8):
        x = torch.rand(rows, 3)
        (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert torch.allclose(torch.from_numpy(output), model(x), atol=1e-6)
