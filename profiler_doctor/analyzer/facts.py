"""What our own capture observed while the script ran, beside the trace: facts that no trace format carries.

The child process writes them as `facts.json` with these very names; rules read them as `trace.facts`. Standard library
alone, because the user's process loads it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profiler_doctor.analyzer.compile_facts import CompileFacts
from profiler_doctor.analyzer.jax_facts import JaxFacts


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
class ArraysFacts:
    """One line that makes tensors from lists of NumPy arrays, within the recorded steps.

    In the trace each of its calls is a range of the name `range_name`.
    """

    range_name: str
    call: str
    """`torch.tensor` or `torch.as_tensor`."""
    file: str
    line: int
    calls: int
    arrays: int
    """In the list, at the last call."""
    elements: int
    """In all of them together."""


@dataclass(frozen=True, kw_only=True)
class LoaderFacts:
    """One DataLoader that was iterated over."""

    dataset: str
    """Class name."""
    samples: int
    """-1: not known."""
    in_memory: bool
    """The dataset holds tensors or arrays with as many rows as it has samples."""
    batch_size: int | None
    """None: it is not the loader that makes batches."""
    workers: int
    persistent: bool
    own_collate: bool
    """Not torch's own way of making a batch of samples."""
    iterators: int
    """How often it was begun anew."""
    fetch_ns: int = 0
    """Median un-profiled time of fetching a batch; 0: not measured."""
    file: str
    line: int
    """Where it was made."""


@dataclass(frozen=True, kw_only=True)
class OptimizerFacts:
    """One optimizer, as it was at its first observed step."""

    name: str
    groups: int
    lone_groups: int
    """Groups of one tensor."""
    settings: int
    """Distinct combinations of options: the fewest groups that would do."""
    tensors: int
    parameter_bytes: int
    fused: bool
    foreach: bool
    file: str
    line: int
    """Where it was made."""


@dataclass(frozen=True, kw_only=True)
class GrowthFacts:
    """What stayed alive from step to step, counted at three boundaries."""

    steps: int
    """Between the first and the last count."""
    steps_between: int = 0
    """Between the first and the second count; 0: half of them."""
    nodes_in_one_step: int | None = None
    """Added from the first boundary to the very next one; None where nobody looked."""
    nodes_before: int
    nodes_between: int = 0
    nodes_after: int
    """Autograd nodes that live tensors hold."""
    bytes_before: int
    bytes_after: int
    """Of live tensors."""
    holder: str
    """The variable whose graph or tensors grew most; "" unknown."""
    file: str
    line: int


@dataclass(frozen=True, kw_only=True)
class SubnormalFacts:
    """A live floating-point tensor with numbers so small that CPUs compute with them slowly."""

    holder: str
    """The variable, attribute or parameter; "" unknown."""
    elements: int
    share: float
    """Of its elements, by those looked at."""


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """A square mask that was alive when the recording ended: bool, or of a floating type and causal."""

    dims: tuple[int, ...]
    type: str
    """As torch names it, without `torch.`."""
    causal: bool
    """Each position sees itself and those before it, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class ArtefactFacts:
    """One compiled file that the script used, or would have, and that was made on another device than this one."""

    kind: str
    """`AOTInductor package`, or `TensorRT engine`: one that ONNX Runtime passed over, building another."""
    path: str
    """As the script gave it; "" unknown."""
    device: str
    """`cpu` or `cuda`: what it runs on; "" unknown."""
    built_for: Mapping[str, str]
    here: Mapping[str, str]
    """What differs ("instruction set", "compute capability", "machine", "platform") → as it is there, and here."""
    file: str = ""
    line: int = 0
    """The script's own that loaded it."""


@dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """What each op of the recording with stacks was given and made: tensors told apart by more than their shape.

    `starts`, `given` and `made` have one entry for each op, in time order.
    """

    starts: tuple[int, ...]
    """Wall clock, ns: the op's start in that recording."""
    given: tuple[tuple[int, ...], ...]
    """The tensors among its arguments in order, as places in `storages`."""
    made: tuple[tuple[int, ...], ...]
    """The storages that it took memory for and that were there when it ended."""
    storages: tuple[int, ...]
    """For each tensor the number of the memory it lies in. Views of one tensor are several tensors in one storage."""
    sizes: tuple[int, ...]
    """The elements of each tensor."""
    lines: tuple[tuple[str, int], ...] = ()
    """File, shortened as torch's profiler shortens it, and line of the script's own calls."""
    called_at: tuple[int, ...] = ()
    """For each op a place in `lines`: the innermost of the script's own calls that led to it. -1: not told, as of an
    operator between two tensors, which is no call."""


@dataclass(frozen=True, kw_only=True)
class OnnxFacts:
    """What was run where the target is an ONNX graph and not a script."""

    runtime: str
    """Version of ONNX Runtime."""
    available: tuple[str, ...]
    """Execution providers that this build of it has."""
    ran: Mapping[str, int]
    """Provider → nodes of one run that it ran: which ones were asked for says nothing."""
    inputs: str
    """The random inputs that were made for the graph, and what was chosen where its own shapes leave it open."""


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
    step_loading_ns: tuple[int, ...] = ()
    """Wall time of the same steps that the program spent in fetching batches from data loaders; empty: not known."""
    torch: str = ""
    copy_bytes_per_s: float | None = None
    """Measured bandwidth of a large tensor copy (bytes read and written), for floors of memory-bound work."""
    function_ns: Mapping[str, float] = field(default_factory=dict)
    """`exp float`, `tanh float`, `erf float` and the same of `double` → what a vectorised one takes for an element on
    one thread, measured; empty: not measured, or not on a CPU."""
    cut: tuple[str, ...] = ()
    seen_at: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Each of `debug_modes`, and "threads" for the largest number → the script's own line that was under way when it
    was first seen in force."""
    arrays: tuple[ArraysFacts, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    optimizers: tuple[OptimizerFacts, ...] = ()
    artefacts: tuple[ArtefactFacts, ...] = ()
    growth: GrowthFacts | None = None
    subnormals: tuple[SubnormalFacts, ...] = ()
    pauses_ns: tuple[tuple[int, int, int], ...] = ()
    """Garbage collections within the recorded steps: start (wall clock), duration, generation."""
    pause_share: float | None = None
    """The share of the time after the recording, un-profiled, that garbage collections took; None: not measured."""
    pauses_at: tuple[tuple[str, int, int], ...] = ()
    """File and line of the script's own that were under way, and the ns that longer garbage collections took there in
    the recording and after it; most first, at most 8. ("", 0, …): under no line of its own."""
    source_folder: str = ""
    """The script's own folder, where files that the recording names without one are looked for."""
    compiles: CompileFacts = CompileFacts()
    masks: tuple[MaskFacts, ...] = ()
    steps_made: int = 0
    """How many steps the script made in all, where it ended by itself; 0: not known."""
    shared_inputs: tuple[tuple[int, ...], ...] = ()
    """Starts (wall clock, ns) of calls of aten::linear that follow each other and were given the same tensor."""
    onnx: OnnxFacts | None = None
    """None: the target is a script."""
    tensors: TensorFacts | None = None
    """None: not recorded, or of a program too large for it."""
    jax: JaxFacts | None = None
    """None: the program is one of torch, or a graph."""
