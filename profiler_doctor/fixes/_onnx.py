"""The model as an ONNX graph in a session of ONNX Runtime: what the ONNX Runtime fixes have in common."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.kinds import Machine, Root, Unsuitable
from profiler_doctor.fixes._engine import first_line, fits_inference, handed_over
from profiler_doctor.fixes._standin import Standin
from profiler_doctor.fixes._tensorrt_cache import engine_folder

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
PREFERRED = ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider")
"""For work on a GPU, the best first. Each takes the nodes that it knows and leaves the rest to the next."""
LARGEST_BYTES = (1 << 31) - 1
"""A graph in one piece holds 2 GB at most."""


def can_run(machine: Machine) -> str | None:
    """Why ONNX Runtime cannot be tried here: the words that `Fix.applies` gives."""
    unfit = fits_inference(machine)
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return unfit or (
        f"{', '.join(missing)} not installed: pip install onnx onnxruntime onnxscript" if missing else None
    )


@contextlib.contextmanager
def in_session(root: Root, level: str = "ORT_ENABLE_ALL") -> Iterator[Callable[..., Any]]:
    """The root's call in a session. `level`: the name of a graph optimisation level of ONNX Runtime."""
    ran: Counter[str] = Counter()

    def build(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        return _session_call(exported(module, tensors), module(*tensors), tensors, (level, ran))

    call = handed_over(root, build)
    yield Standin(root.module, call, note=f"ran on {_told(ran)}")


def exported(module: Any, tensors: tuple[Any, ...], dynamic_shapes: Any = None) -> bytes:
    """The graph, of these shapes alone or of those that the exporter is told. Raises Unsuitable."""
    import torch

    if any(tensor.dtype == torch.bfloat16 for tensor in tensors):
        raise Unsuitable("the model takes bfloat16, which ONNX Runtime's Python interface does not")
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            program: Any = torch.onnx.export(module, tensors, dynamo=True, verbose=False, dynamic_shapes=dynamic_shapes)
        except Exception as error:  # whatever the model holds that the exporter does not know
            raise Unsuitable(f"it cannot be exported to ONNX: {first_line(error)}") from error
    if program.model_proto.ByteSize() > LARGEST_BYTES:
        raise Unsuitable("its graph is larger than the 2 GB that fit into one piece")
    return bytes(program.model_proto.SerializeToString())


def _session_call(
    graph: bytes, outputs: Sequence[Any], tensors: Sequence[Any], wish: tuple[str, Counter[str]]
) -> Callable[..., Sequence[Any]]:
    import onnxruntime
    import torch

    level, ran = wish
    device = tensors[0].device if tensors else torch.device("cpu")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder, "ort"))
        try:
            session = onnxruntime.InferenceSession(graph, options, providers=_providers(onnxruntime, graph, device))
            names = [node.name for node in session.get_inputs()]
            if len(names) != len(tensors):
                raise Unsuitable("its graph does not take all of the model's inputs")
            call = _on_cpu(session, names) if device.type == "cpu" else _bound(session, names, outputs)
            call(*tensors)
        except Unsuitable:
            raise
        except Exception as error:  # an op or a type that it has no code for
            raise Unsuitable(f"ONNX Runtime cannot run it: {first_line(error)}") from error
        ran.update(providers_of(Path(session.end_profiling())))
    return call


def _providers(onnxruntime: Any, graph: bytes, device: Any) -> list[Any]:
    """Those that are there, with their options; on a CPU only the CPU's."""
    if device.type == "cpu":
        return [PREFERRED[-1]]
    there = [name for name in PREFERRED if name in onnxruntime.get_available_providers()]
    cache = {"trt_engine_cache_enable": True, "trt_engine_cache_path": str(engine_folder(graph, "onnxruntime"))}
    more = {"TensorrtExecutionProvider": {"device_id": device.index or 0, **cache}}
    more["CUDAExecutionProvider"] = {"device_id": device.index or 0}
    return [(name, more.get(name, {})) for name in there]


def _on_cpu(session: Any, names: Sequence[str]) -> Callable[..., Sequence[Any]]:
    import torch

    run, from_numpy = session.run, torch.from_numpy

    def call(*tensors: Any) -> Sequence[Any]:
        given = {name: tensor.detach().numpy() for name, tensor in zip(names, tensors, strict=True)}
        return [from_numpy(output) for output in run(None, given)]

    return call


def _bound(session: Any, names: Sequence[str], outputs: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """Inputs and outputs stay where torch has them on the GPU; nothing is copied to the host."""
    import torch

    told = [node.name for node in session.get_outputs()]

    def call(*tensors: Any) -> Sequence[Any]:
        binding, results = session.io_binding(), [torch.empty_like(output).contiguous() for output in outputs]
        kept = [tensor.detach().contiguous() for tensor in tensors]
        for name, tensor in zip(names, kept, strict=True):
            binding.bind_input(name, *_place(tensor))
        for name, tensor in zip(told, results, strict=True):
            binding.bind_output(name, *_place(tensor))
        torch.cuda.current_stream().synchronize()  # the session has a stream of its own
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return results

    return call


def _place(tensor: Any) -> tuple[Any, ...]:
    """Device, device number, element type, shape and address, as a binding takes them."""
    import torch

    dtype = torch.empty((), dtype=tensor.dtype).numpy().dtype
    return tensor.device.type, tensor.device.index or 0, dtype.type, tuple(tensor.shape), tensor.data_ptr()


def providers_of(profile: Path) -> Counter[str]:
    """Provider → nodes it ran, from a profile that ONNX Runtime wrote: which ones were asked for says nothing."""
    events = json.loads(profile.read_text(encoding="utf-8"))
    named = [event["args"].get("provider", "") for event in events if event.get("cat") == "Node"]
    return Counter(name for name in named if name)


def _told(ran: Counter[str]) -> str:
    names = [f"{name.removesuffix('ExecutionProvider')} ({count} nodes)" for name, count in ran.most_common()]
    return ", ".join(names) or "nothing that it tells"
