"""An ONNX graph in a session of ONNX Runtime, by the settings that a fix may change."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.capture.child.onnx_inputs import Unmakeable

Settings = Mapping[str, Any]
"""Attribute of ONNX Runtime's SessionOptions → value; with a dot in it: a config entry; `providers`: their names."""
ENUMS = {"graph_optimization_level": "GraphOptimizationLevel", "execution_mode": "ExecutionMode"}
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
"""What people ask for first: those of these that are there."""
ERRORS_ONLY = 3


def runtime() -> Any:
    """ONNX Runtime. Raises Unmakeable where it is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise Unmakeable(
            f"A graph is run by ONNX Runtime, which cannot be imported here ({error}). pip install onnxruntime"
        ) from error
    return onnxruntime


def opened(onnxruntime: Any, model: str, settings: Settings) -> Any:
    """A session. Raises Unmakeable where ONNX Runtime does not take the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    for name, value in settings.items():
        if name in ENUMS:
            setattr(options, name, getattr(getattr(onnxruntime, ENUMS[name]), value))
        elif "." in name:
            options.add_session_config_entry(name, str(value))
        elif name != "providers":
            setattr(options, name, value)
    there = onnxruntime.get_available_providers()
    providers = [name for name in settings.get("providers", PROVIDERS) if name in there]
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # broken files, unknown operators, types without a kernel
        raise Unmakeable(
            f"ONNX Runtime {onnxruntime.__version__} cannot load {Path(model).name}: {first_line(error)}"
        ) from error


def run_once(session: Any, arrays: Mapping[str, Any], words: str) -> list[Any]:
    """One run. Raises Unmakeable where the graph does not take these inputs."""
    try:
        return list(session.run(None, dict(arrays)))
    except Exception as error:
        raise Unmakeable(
            f"The graph does not run on the inputs that were made for it: {first_line(error)}. {words} "
            "Sizes may follow the file: `-- NAME=8`, or whole shapes, `-- INPUT=8x3x224x224`."
        ) from error


def who_ran(onnxruntime: Any, model: str, settings: Settings, arrays: Mapping[str, Any]) -> Counter[str]:
    """Provider → nodes of one run that it ran, from ONNX Runtime's own profile of it in a session of its own."""
    with tempfile.TemporaryDirectory() as folder:
        profiled = {**settings, "enable_profiling": True, "profile_file_prefix": os.path.join(folder, "ort")}  # noqa: PTH118
        session = opened(onnxruntime, model, profiled)
        session.run(None, dict(arrays))
        return providers_in(Path(session.end_profiling()))


def providers_in(profile: Path) -> Counter[str]:
    """Provider → nodes, over the whole profile."""
    events = json.loads(profile.read_text(encoding="utf-8"))
    names = [event.get("args", {}).get("provider", "") for event in events if event.get("cat") == "Node"]
    return Counter(filter(None, names))


def told(ran: Mapping[str, int]) -> str:
    """ "CPU (12 nodes)", the provider of most nodes first."""
    ordered = sorted(ran.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name.removesuffix('ExecutionProvider')} ({count} nodes)" for name, count in ordered)


def as_module(model: str, arrays: Mapping[str, Any], settings: Settings) -> Any:
    """The graph as a torch module of its inputs in order, so that trials can treat and compare it like any other.

    `changed(**settings)` gives the same graph in another session.
    """
    import torch

    onnxruntime = runtime()

    class OnnxGraph(torch.nn.Module):
        """One graph in one session. Its parameter only makes it a model like others."""

        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.carrier = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
            self.settings = dict(settings)
            self.note = f"ran on {told(who_ran(onnxruntime, model, settings, arrays))}"
            self._call = _call_of(torch, opened(onnxruntime, model, settings), list(arrays))
            self.eval()

        def forward(self, *tensors: Any) -> Sequence[Any]:
            return self._call(tensors)  # type: ignore[no-any-return]

        def changed(self, **changes: Any) -> OnnxGraph:
            return OnnxGraph({**self.settings, **changes})

        def __deepcopy__(self, memo: object) -> OnnxGraph:
            copied = OnnxGraph.__new__(OnnxGraph)  # a session holds nothing that a run changes
            vars(copied).update(vars(self))
            return copied

    return OnnxGraph(settings)


def _call_of(torch: Any, session: Any, names: Sequence[str]) -> Any:
    run = session.run

    def call(tensors: Sequence[Any]) -> Sequence[Any]:
        outputs = run(None, {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)})
        return tuple(_as_tensor(torch, output) for output in outputs)

    return call


def _as_tensor(torch: Any, output: Any) -> Any:
    """Sequences and maps, which some graphs give, as they are; text as a list."""
    kind = getattr(getattr(output, "dtype", None), "kind", "")
    if not kind:
        return output
    return output.tolist() if kind in "OUS" else torch.from_numpy(output)


def first_line(error: BaseException) -> str:
    """What an exception says first, short enough for a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
