"""The model as a TensorRT engine, built once and kept: what the TensorRT fixes have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from profiler_doctor.fixes._tensorrt_half import in_half
from profiler_doctor.fixes._tensorrt_shapes import Extent, dynamic_axes, extents

PACKAGES = ("tensorrt", "onnx", "onnxscript")
WORKSPACE_BYTES = 1 << 30
"""Scratch memory that the builder's candidates may use: enough for all but a few of them."""
ENGINE_FILE = "engine.plan"
NO_FLAG = (
    "this version of TensorRT takes no precision beside the graph's own, and the graph has no {}; convert the graph, "
    "or install a version before 11"
)


def can_run(machine: Machine) -> str | None:
    """Why TensorRT cannot be tried here: the words that `Fix.applies` gives."""
    unfit = fits_inference(machine) or on_cuda(machine)
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return unfit or (f"{', '.join(missing)} not installed: pip install {' '.join(PACKAGES)}" if missing else None)


@contextmanager
def in_engine(root: Root, precision: str = "") -> Iterator[Callable[..., Any]]:
    """The root's call in an engine. `precision`: what else than float32 it may compute in, "FP16" or "INT8"."""

    def build(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        by_flag = precision if _has_flag(precision) else ""
        module = module if by_flag == precision else _converted(module, precision)
        outputs = module(*tensors)
        graph, ranges = _graph(module, tensors, root.signatures)
        return EngineCall(kept_engine(graph, tensors, by_flag, ranges), outputs, tensors, ranges)

    yield handed_over(root, build)


def _has_flag(precision: str) -> bool:
    """Whether this version lets the builder choose a precision. From TensorRT 11 on the graph's types alone decide."""
    import tensorrt

    return hasattr(tensorrt.BuilderFlag, precision)


def _converted(module: Any, precision: str) -> Any:
    """The module with the precision in its graph. Raises Unsuitable where only other tools than torch put it there."""
    if precision == "FP16":
        return in_half(module)
    if precision:
        raise Unsuitable(NO_FLAG.format(precision))
    return module


def _graph(module: Any, tensors: tuple[Any, ...], signatures: Sequence[str]) -> tuple[bytes, tuple[Extent, ...]]:
    """The graph for all shapes that the script uses; for those at hand where it cannot be exported for more."""
    import torch

    shapes = [tuple(tensor.shape) for tensor in tensors]
    ranges = extents(shapes, signatures)
    axes = dynamic_axes(torch, ranges)
    if axes is not None:
        with suppress(Unsuitable):
            return exported(module, tensors, axes), ranges
    return exported(module, tensors), extents(shapes)


def kept_engine(
    graph: bytes, tensors: Sequence[Any], precision: str = "", ranges: tuple[Extent, ...] | None = None
) -> Any:
    """The engine for this graph on this GPU: the kept one, or a new one, which is kept.

    `ranges`: the shapes that it takes; None: those of `tensors` alone.

    Raises:
        Unsuitable: the kept one is for something else or cannot be read, or none can be built.
    """
    import tensorrt

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    ranges = extents([tuple(tensor.shape) for tensor in tensors]) if ranges is None else ranges
    file = engine_folder(graph, _options(ranges, precision)) / ENGINE_FILE
    if not file.exists():
        _keep(file, _built(tensorrt, logger, graph, Wish(tensors, ranges, precision, file.parent)))
    engine = tensorrt.Runtime(logger).deserialize_cuda_engine(file.read_bytes())
    if engine is None:
        raise Unsuitable(f"the kept TensorRT engine cannot be read here; delete {file.parent} to build it anew")
    return engine


@dataclass(frozen=True)
class Wish:
    """What an engine is to be built with."""

    tensors: Sequence[Any]
    """The inputs: what 8 bits are calibrated on."""
    ranges: tuple[Extent, ...]
    """The shapes of each: the engine's profile."""
    precision: str
    folder: Path
    """Where it will lie, and the ranges of its activations beside it."""


def _options(ranges: Sequence[Extent], precision: str) -> str:
    """The build options in words, as part of the engine's key."""
    profile = " ".join(map(str, ranges))
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
    for name, extent in zip(inputs, wish.ranges, strict=True):
        profile.set_shape(name, extent.least, extent.usual, extent.most)
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
    """Let layers compute in it. Raises Unsuitable where the version has no flag for it."""
    flag = getattr(tensorrt.BuilderFlag, precision, None) if precision else None
    if flag is not None:
        config.set_flag(flag)
    elif precision:
        raise Unsuitable(NO_FLAG.format(precision))


def _keep(file: Path, plan: bytes) -> None:
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(plan)
    part.replace(file)


class EngineCall:
    """The engine on torch's own memory and stream; `outputs` are tensors like those it gives for `tensors`."""

    def __init__(self, engine: Any, outputs: Sequence[Any], tensors: Sequence[Any], ranges: tuple[Extent, ...]) -> None:
        import tensorrt

        names = [engine.get_tensor_name(place) for place in range(engine.num_io_tensors)]
        self._given = [name for name in names if engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT]
        self._told = [name for name in names if name not in self._given]
        self._context = engine.create_execution_context()
        self._outputs = outputs
        self._types = [tensor.dtype for tensor in tensors]
        self._ranges = ranges
        self._varies = any(extent.axes for extent in ranges)

    def fits(self, tensors: Sequence[Any]) -> bool:
        """Whether the engine was built for tensors of these types and shapes."""
        typed = [tensor.dtype for tensor in tensors] == self._types
        return typed and all(extent.holds(tensor.shape) for extent, tensor in zip(self._ranges, tensors, strict=True))

    def __call__(self, *tensors: Any) -> Sequence[Any]:
        """One call, queued on torch's stream."""
        import torch

        kept = [tensor.detach().contiguous() for tensor in tensors]
        for name, tensor in zip(self._given, kept, strict=True):
            self._context.set_input_shape(name, tuple(tensor.shape))
        results = [self._room(torch, name, like) for name, like in zip(self._told, self._outputs, strict=True)]
        for name, tensor in zip([*self._given, *self._told], [*kept, *results], strict=True):
            self._context.set_tensor_address(name, tensor.data_ptr())
        self._context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return results

    def _room(self, torch: Any, name: str, like: Any) -> Any:
        """Memory for an output; where shapes vary the engine knows how much, once it was told its inputs'."""
        shape = tuple(self._context.get_tensor_shape(name)) if self._varies else tuple(like.shape)
        return torch.empty(shape, dtype=like.dtype, device=like.device)
