"""What our own capture observed while the script ran, beside the trace: facts that no trace format carries.

The child process writes them as `facts.json` with these very names; rules read them as `trace.facts`. Standard library
alone, because the user's process loads it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class RootFacts:
    """One outermost module with parameters, over all its observed calls."""

    name: str
    """Class name; a second root of the same class gets `#2`."""
    calls: int
    training: bool
    """`module.training` at any observed call."""
    grad_enabled: bool
    """Grad mode on at every observed call (and no inference mode)."""
    output_requires_grad: bool
    autocast: str | None
    parameter_bytes: int
    parameter_dtypes: tuple[str, ...]
    input_ranks: tuple[int, ...]
    """Numbers of dimensions of its floating-point tensor inputs."""
    signatures: tuple[str, ...]
    """Distinct input shape signatures, at most 16."""
    compiled: bool
    """It is, or holds, a torch.compile'd or scripted module."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One observed run of the user's program."""

    roots: tuple[RootFacts, ...] = ()
    step_source: str = ""
    """In words: "optimizer.step of AdamW", "calls of ResNet"; empty: no steps were found."""
    backward_calls: int = 0
    optimizer_steps: int = 0
    device: str = "cpu"
    """`cpu`, `cuda` or `xpu`: where the recorded work ran."""
    cpus: int = 0
    """CPUs this process may use: affinity and cgroup quota together."""
    threads: int = 0
    """The largest number of intra-op threads in force at any observed step."""
    cpu_flags: tuple[str, ...] = ()
    debug_modes: tuple[str, ...] = ()
    """Seen on during steps, in words: "autograd anomaly mode", "sys.settrace (a debugger or coverage)"."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that change performance, and are set."""
    own_profiler: bool = False
    """The script ran a torch profiler of its own, so ours stepped aside."""
    warmup_steps: int = 0
    cold_step_ns: int | None = None
    profiled_step_ns: tuple[int, ...] = ()
    """Wall time of each recorded step."""
    step_ns: tuple[int, ...] = ()
    """Wall time of each un-profiled, warm step: the step's time."""
    step_cpu_ns: tuple[int, ...] = ()
    """Process CPU time of the same steps."""
    torch: str = ""
    copy_bytes_per_s: float | None = None
    """Measured bandwidth of a large tensor copy (bytes read and written), for floors of memory-bound work."""
    cut: tuple[str, ...] = ()
