"""What is true of the program while it steps, and no trace tells: modes, roots, threads, debug switches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.capture.child.alive import Alive
from profiler_doctor.analyzer.capture.child.arrays import Arrays
from profiler_doctor.analyzer.capture.child.artefacts import Artefacts
from profiler_doctor.analyzer.capture.child.loaders import Loaders
from profiler_doctor.analyzer.capture.child.optimizers import Optimizers
from profiler_doctor.analyzer.capture.child.own_code import Place, own_place
from profiler_doctor.analyzer.capture.child.pauses import Pauses
from profiler_doctor.analyzer.capture.child.ranges import mirror
from profiler_doctor.analyzer.capture.child.replacing import Undo, replaced
from profiler_doctor.analyzer.capture.child.roots import CALL_PLACE
from profiler_doctor.analyzer.facts import Facts, RootFacts

MAX_SIGNATURES = 16
COPY_BYTES = 32 << 20
"""Larger than a core's caches, small enough for any machine that runs a model."""
COPY_S = 0.03
"""Copy for so long, and take the best: other programs only ever make a copy slower."""
TELLING = (
    "OMP_", "MKL_", "OPENBLAS_", "GOMP_", "KMP_", "CUDA_", "HIP_", "HSA_", "AMD_SERIALIZE_", "CUBLAS_", "NVIDIA_TF32",
    "PYTORCH_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "NCCL_", "ONEDNN_", "DNNL_", "ATEN_", "LD_PRELOAD",
    "MALLOC_", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONMALLOC", "PYTHONFAULTHANDLER",
)  # fmt: skip
"""Beginnings of the names of environment variables that change how fast torch is."""


@dataclass
class _Root:
    name: str
    calls: int = 0
    training: bool = False
    grad_enabled: bool = True
    output_requires_grad: bool = False
    autocast: str | None = None
    parameter_bytes: int = 0
    parameter_dtypes: tuple[str, ...] = ()
    input_ranks: set[int] = field(default_factory=set)
    signatures: dict[str, None] = field(default_factory=dict)
    compiled: bool = False


class Observed:
    """An `Inspector` of outermost calls. Fills in as the program runs; `facts` is what is known so far."""

    def __init__(self, torch: Any, names: Mapping[str, str]) -> None:
        self._torch = torch
        self._names = names
        self._roots: dict[str, _Root] = {}
        self.threads = 0
        self.debug_modes: dict[str, None] = {}
        self.device = "cpu"
        self.backward_calls = 0
        self.torch_profiles: Callable[[], bool] = lambda: False
        self._environment = {name: os.environ[name] for name in sorted(os.environ) if name.startswith(TELLING)}
        """Taken now: torch itself sets some of them later on."""
        self._seen_at: dict[str, Place] = {}
        self._arrays, self.pauses, self.alive = Arrays(torch), Pauses(), Alive(torch)
        self._loaders, self._optimizers, self._artefacts = Loaders(torch), Optimizers(), Artefacts()

    def install(self) -> tuple[Undo, ...]:
        """Count backward passes, see the modes in force in them, watch what the host does; returns what stops that."""
        autograd = self._torch.autograd
        counted = [replaced(autograd, name, self._backward) for name in ("backward", "grad")]
        mirror.on_recording += [self._arrays.recording, self.pauses.recording]
        watched = (*self._loaders.install(), *self._optimizers.install(), self._artefacts.install())
        return (*counted, replaced(autograd, "gradcheck", self._gradcheck), *watched, mirror.on_recording.clear)

    def before_call(self, serial: str, module: Any, inputs: tuple[str, list[Any]]) -> None:
        """An outermost module is about to be called with tensors of this signature."""
        known = self._roots.get(serial)
        if known is None:
            known = self._roots[serial] = self._described(serial, module)
        signature, tensors = inputs
        known.calls += 1
        known.training |= bool(module.training)
        known.grad_enabled &= self._torch.is_grad_enabled() and not self._torch.is_inference_mode_enabled()
        known.autocast = self._autocast() or known.autocast
        known.input_ranks |= {tensor.dim() for tensor in tensors if tensor.is_floating_point()}
        if len(known.signatures) < MAX_SIGNATURES:
            known.signatures[signature] = None
        self.look()

    def after_call(self, serial: str, tensors: list[Any]) -> None:
        """It gave these tensors."""
        if any(tensor.requires_grad for tensor in tensors):
            self._roots[serial].output_requires_grad = True

    def loading_ns(self) -> int:
        """Time that the thread that steps has spent in data loaders since this was last asked."""
        return self._loaders.spent_ns()

    def look(self) -> None:
        """See what is in force at this moment of a step. A torch profiler with stacks sets a Python profiler too."""
        threads = self._torch.get_num_threads()
        if threads > self.threads:
            self.threads = threads
            self._seen_at["threads"] = own_place(sys._getframe(1))
        for mode in self._modes():
            if mode not in self.debug_modes:
                self.debug_modes[mode] = None
                self._seen_at[mode] = own_place(sys._getframe(1))

    def facts(self) -> Facts:
        """What is known so far, without the step's times."""
        return Facts(
            roots=self._root_facts(),
            backward_calls=self.backward_calls,
            device=self.device,
            cpus=processors.usable_cpus(),
            threads=self.threads or self._torch.get_num_threads(),
            cpu_flags=processors.cpu_flags(),
            debug_modes=tuple(self.debug_modes),
            environment=self._environment,
            torch=str(self._torch.__version__),
            seen_at=dict(self._seen_at),
            arrays=self._arrays.facts(),
            loaders=self._loaders.facts(),
            optimizers=self._optimizers.facts(),
            pauses_ns=tuple(self.pauses.found_ns),
            pause_share=self.pauses.share(),
            pauses_at=self.pauses.places(),
            artefacts=self._artefacts.facts(),
            growth=self.alive.growth,
            subnormals=self.alive.subnormals,
        )

    def _described(self, serial: str, module: Any) -> _Root:
        parameters = list(module.parameters())
        self.device = next((p.device.type for p in parameters if p.device.type in ("cuda", "xpu")), self.device)
        known = [parameter for parameter in parameters if not _unmade(parameter)]
        return _Root(
            self._names[f"module {serial}"],
            parameter_bytes=sum(parameter.numel() * parameter.element_size() for parameter in known),
            parameter_dtypes=tuple(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})),
            compiled=any(map(self._is_compiled, module.modules())),
        )

    def _is_compiled(self, module: Any) -> bool:
        return (
            vars(module).get(CALL_PLACE) is not None
            or "_orig_mod" in vars(module).get("_modules", {})
            or (isinstance(module, self._torch.jit.ScriptModule))
        )

    def _autocast(self) -> str | None:
        torch = self._torch
        if not torch._C._is_any_autocast_enabled():
            return None
        return str(torch.get_autocast_dtype(self.device)).removeprefix("torch.")

    def _modes(self) -> list[str]:
        seen = []
        if self._torch.is_anomaly_enabled():
            seen.append("autograd anomaly mode")
        if sys.gettrace() is not None:
            seen.append("sys.settrace (a debugger or coverage)")
        if sys.getprofile() is not None and not self.torch_profiles():
            seen.append("sys.setprofile (a Python profiler)")
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None:
            seen += [f"sys.monitoring ({tool})" for tool in filter(None, map(monitoring.get_tool, range(3)))]
        tracemalloc = sys.modules.get("tracemalloc")
        if tracemalloc is not None and tracemalloc.is_tracing():
            seen.append("tracemalloc")
        return seen

    def _backward(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.compiler.is_compiling():
                self.backward_calls += 1
                self.look()
            return run(*args, **kwargs)

        return counted

    def _gradcheck(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.debug_modes["gradcheck"] = None
            return run(*args, **kwargs)

        return noted

    def _root_facts(self) -> tuple[RootFacts, ...]:
        """Roots that were called, in the order of their first call."""
        made = []
        for root in self._roots.values():
            ranks, signatures = tuple(sorted(root.input_ranks)), tuple(root.signatures)
            made.append(RootFacts(**{**vars(root), "input_ranks": ranks, "signatures": signatures}))
        return tuple(made)


def copy_bytes_per_s(torch: Any, device: str) -> float | None:
    """Measured bandwidth of copying one large tensor to another, bytes read and written."""
    with torch.no_grad():
        source = torch.zeros(COPY_BYTES // 4, dtype=torch.float32, device=device)
        target = torch.zeros_like(source)
        synchronize = getattr(torch, device).synchronize
        best_ns, started_ns = 0, time.perf_counter_ns()
        while best_ns == 0 or time.perf_counter_ns() - started_ns < COPY_S * 1e9:
            begun_ns = time.perf_counter_ns()
            target.copy_(source)
            synchronize()
            took_ns = time.perf_counter_ns() - begun_ns
            best_ns = min(best_ns or took_ns, took_ns)
    return 2 * COPY_BYTES / (best_ns / 1e9)


def _unmade(parameter: Any) -> bool:
    """A lazy module's parameter, which has no size yet."""
    return type(parameter).__name__.startswith("Uninitialized")
