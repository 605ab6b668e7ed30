"""The model as a TensorRT engine, built once and kept: what the TensorRT fixes have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._cuda import on_cuda
from profiler_doctor.fixes._engine import fits_inference, handed_over
from profiler_doctor.fixes._onnx import exported
from profiler_doctor.fixes._tensorrt_cache import engine_folder

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
def in_engine(root: Root, half: bool = False) -> Iterator[Callable[..., Any]]:
    """The root's call in an engine. `half`: it may compute in float16."""

    def build(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        outputs = module(*tensors)
        return engine_call(kept_engine(exported(module, tensors), tensors, half), outputs)

    yield handed_over(root, build)


def kept_engine(graph: bytes, tensors: Sequence[Any], half: bool) -> Any:
    """The engine for this graph on this GPU: the kept one, or a new one, which is kept.

    Raises:
        Unsuitable: the kept one is for something else or cannot be read, or none can be built.
    """
    import tensorrt

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    file = engine_folder(graph, f"half={half} workspace={WORKSPACE_BYTES}") / ENGINE_FILE
    if not file.exists():
        _keep(file, _built(tensorrt, logger, graph, (tensors, half)))
    engine = tensorrt.Runtime(logger).deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise Unsuitable(f"the kept TensorRT engine cannot be read here; delete {file.parent} to build it anew")
    return engine


def _built(tensorrt: Any, logger: Any, graph: bytes, wish: tuple[Sequence[Any], bool]) -> bytes:
    tensors, half = wish
    builder = tensorrt.Builder(logger)
    network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(graph):
        raise Unsuitable(f"TensorRT cannot read its graph: {parser.get_error(0)}")
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    config.set_memory_pool_limit(tensorrt.MemoryPoolType.WORKSPACE, WORKSPACE_BYTES)
    for place, tensor in enumerate(tensors):  # each shape has an engine of its own
        profile.set_shape(network.get_input(place).name, *[tuple(tensor.shape)] * 3)
    config.add_optimization_profile(profile)
    if half:
        config.set_flag(tensorrt.BuilderFlag.FP16)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise Unsuitable("TensorRT found no way to build it")
    return bytes(plan)


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
