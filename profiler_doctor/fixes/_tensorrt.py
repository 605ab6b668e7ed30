"""The model as a TensorRT engine, built once and kept: what the TensorRT fixes have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._cuda import on_cuda
from profiler_doctor.fixes._engine import fits_inference, handed_over
from profiler_doctor.fixes._onnx import exported
from profiler_doctor.fixes._tensorrt_cache import engine_folder
from profiler_doctor.fixes._tensorrt_calibrator import CALIBRATION_FILE, calibrator

PACKAGES = ("tensorrt", "onnx", "onnxscript")
WORKSPACE_BYTES = 1 << 30
"""Scratch memory that the builder's candidates may use: enough for all but a few of them."""
ENGINE_FILE = "engine.plan"


def can_run(machine: Machine) -> str | None:
    """Why TensorRT cannot be tried here: the words that `Fix.applies` gives."""
    unfit = fits_inference(machine) or on_cuda(machine)
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return unfit or (f"{', '.join(missing)} not installed: pip install {' '.join(PACKAGES)}" if missing else None)


@contextmanager
def in_engine(root: Root, precision: str = "") -> Iterator[Callable[..., Any]]:
    """The root's call in an engine. `precision`: what else than float32 it may compute in, "FP16" or "INT8"."""

    def build(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        outputs = module(*tensors)
        return engine_call(kept_engine(exported(module, tensors), tensors, precision), outputs)

    yield handed_over(root, build)


def kept_engine(graph: bytes, tensors: Sequence[Any], precision: str = "") -> Any:
    """The engine for this graph on this GPU: the kept one, or a new one, which is kept.

    Raises:
        Unsuitable: the kept one is for something else or cannot be read, or none can be built.
    """
    import tensorrt

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    file = engine_folder(graph, _options(tensors, precision)) / ENGINE_FILE
    if not file.exists():
        _keep(file, _built(tensorrt, logger, graph, Wish(tensors, precision, file.parent)))
    engine = tensorrt.Runtime(logger).deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise Unsuitable(f"the kept TensorRT engine cannot be read here; delete {file.parent} to build it anew")
    return engine


@dataclass(frozen=True)
class Wish:
    """What an engine is to be built with."""

    tensors: Sequence[Any]
    """The inputs: their shapes are its profile, and their values what 8 bits are calibrated on."""
    precision: str
    folder: Path
    """Where it will lie, and the ranges of its activations beside it."""


def _options(tensors: Sequence[Any], precision: str) -> str:
    """The build options in words, as part of the engine's key."""
    profile = " ".join("x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors)
    return f"precision={precision or 'FP32'} workspace={WORKSPACE_BYTES} profile={profile}"


def _built(tensorrt: Any, logger: Any, graph: bytes, wish: Wish) -> bytes:
    builder = tensorrt.Builder(logger)
    explicit = getattr(tensorrt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)  # always so from TensorRT 10 on
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(graph):
        raise Unsuitable(f"TensorRT cannot read its graph: {parser.get_error(0)}")
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    config.set_memory_pool_limit(tensorrt.MemoryPoolType.WORKSPACE, WORKSPACE_BYTES)
    inputs = {network.get_input(place).name: tensor for place, tensor in enumerate(wish.tensors)}
    for name, tensor in inputs.items():  # each shape has an engine of its own
        profile.set_shape(name, *[tuple(tensor.shape)] * 3)
    config.add_optimization_profile(profile)
    _allow(tensorrt, config, wish.precision)
    if wish.precision == "INT8":
        config.int8_calibrator = calibrator(tensorrt, inputs, wish.folder / CALIBRATION_FILE)
        config.set_calibration_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise Unsuitable("TensorRT found no way to build it")
    return bytes(plan)


def _allow(tensorrt: Any, config: Any, precision: str) -> None:
    """Let layers compute in it. Raises Unsuitable for TensorRT 11 and later, where the graph's types alone decide."""
    flag = getattr(tensorrt.BuilderFlag, precision, None) if precision else None
    if flag is not None:
        config.set_flag(flag)
    elif precision:
        raise Unsuitable(
            f"this version of TensorRT takes no precision beside the graph's own, and the graph has no {precision}; "
            "convert the graph, or install a version before 11"
        )


def _keep(file: Path, plan: bytes) -> None:
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(plan)
    part.replace(file)


def engine_call(engine: Any, outputs: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """The engine on torch's own memory and stream; `outputs` are tensors like those it gives."""
    import tensorrt
    import torch

    names = [engine.get_tensor_name(place) for place in range(engine.num_io_tensors)]
    given = [name for name in names if engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT]
    told = [name for name in names if name not in given]
    context = engine.create_execution_context()

    def call(*tensors: Any) -> Sequence[Any]:
        kept = [tensor.detach().contiguous() for tensor in tensors]
        results = [torch.empty_like(output).contiguous() for output in outputs]
        for name, tensor in zip(given, kept, strict=True):
            context.set_input_shape(name, tuple(tensor.shape))
        for name, tensor in zip([*given, *told], [*kept, *results], strict=True):
            context.set_tensor_address(name, tensor.data_ptr())
        context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return results

    return call
