"""The kinds of file that can be dropped into a folder: a rule, a fix, a report, a trace format, a table.

Each file of `rules/`, `fixes/`, `reports/` and `analyzer/formats/` ends in one constant of its kind, and `plugins.find`
finds it; a file of `analyzer/measures/` ends in one for each of its tables. The user's process loads this module too,
so it imports the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profiler_doctor.analyzer.model import Clock, Diagnosis, Where

if TYPE_CHECKING:
    import pandas as pd

    from profiler_doctor.analyzer.trace import Trace


class Has(StrEnum):
    """What a trace can hold, and a rule can need. The value ends the sentence "the trace has no …"."""

    STEPS = "marked steps"
    OPS = "CPU ops"
    KERNELS = "GPU kernels"
    LAUNCHES = "launches linked to GPU work"
    SHAPES = "input shapes"
    STRIDES = "input strides"
    STACKS = "Python stacks"
    MEMORY = "memory events"
    COLLECTIVES = "collectives"
    CAPTURE = "facts that only our own capture records"
    CPU_ONLY = "run that kept to the CPU"
    RANKS = "traces of other ranks beside it"


@dataclass(frozen=True)
class Threshold:
    """A number that a rule judges by. Settable in `[tool.profiler-doctor.rules.CODE]`."""

    value: float
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What a cure would change in the recorded window, for the replay to work out what that is worth.

    Rows are event rows of the trace. Edits of several findings are merged and replayed together, so that time which two
    findings claim is counted once.
    """

    keep: Mapping[int, float] = field(default_factory=dict)
    """Event row (kernel, copy or host op) → share of its own duration that stays; 0 drops it.

    More than 1: a kernel that takes over what dropped ones did, and then takes longer itself.
    """
    free: tuple[int, ...] = ()
    """Calls that would return at once: blocking ones, allocations, launches that wait for their kernel."""
    aside: tuple[int, ...] = ()
    """Copies and collectives that would run beside other work, early enough that nothing waits for them."""
    joined: tuple[int, ...] = ()
    """GPU work that would be launched together with what its stream does before it: same work, no launch of its own."""
    no_launch_gaps: bool = False
    """As if the step were one graph: no host time between launches."""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """What a rule's `find` yields: a finding before its stake is known.

    `message` is one plain sentence with the number that matters. `edit` None: only a trial can tell what it is worth.
    `basis` may say more about how the edit was found; the engine adds how the replay was done.
    """

    message: str
    where: Where = Where()
    evidence: Mapping[str, object] = field(default_factory=dict)
    intervals_ns: tuple[tuple[int, int], ...] = ()
    edit: Edit | None = None
    basis: str = ""
    grave: bool = True
    """Of a health rule: whether the rule's `vetoes` hold; False: worth a note, and the other findings stand."""


Limits = Mapping[str, float]
"""Threshold name → value in force, after the user's overrides."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One illness: when it is there, and how it is told. `doc` is the file's docstring, with the fixed headings."""

    code: str
    name: str
    doc: str
    find: Callable[[Trace, Limits], Iterable[Sighting]]
    needs: tuple[Has, ...] = ()
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    vetoes: tuple[str, ...] = ()
    """Codes or families (`LCH`) that must not be believed when this one fires. Only health rules (MSR) veto."""

    @property
    def health(self) -> bool:
        """Whether it speaks of the measurement and not of the program."""
        return self.code.startswith("MSR")

    @property
    def title(self) -> str:
        """The first line of the docs."""
        return self.doc.strip().splitlines()[0]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a fix would run: what `Fix.applies` may ask. Filled from the environment and the capture's facts."""

    device: Literal["cpu", "cuda", "xpu", "none"]
    torch: str | None
    cpu_flags: frozenset[str]
    cpus: int
    """CPUs that this process may use: affinity and cgroup quota together."""
    threads: int | None
    """Intra-op threads during the step."""
    has_root: bool
    """Whether an outermost module call was seen."""
    training: bool
    """Whether a backward pass or an optimizer step was seen."""
    input_ranks: frozenset[int] = frozenset()
    """Numbers of dimensions of the root's floating-point tensor inputs."""
    signatures: tuple[str, ...] = ()
    """Shapes of the root's tensor inputs, each kind of call once ("8x3x96x96 8"); empty: not known, or many roots."""
    compiled: bool = False
    """Whether the script compiles or scripts its model already."""
    made_anew: bool = False
    """Whether what makes the steps is another object at each call: a function made in the loop."""
    onnx_providers: frozenset[str] = frozenset()
    """Execution providers that ONNX Runtime has here, where the target is an ONNX graph; empty: it is a script."""


@dataclass(frozen=True)
class Root:
    """The user's outermost module at its first call after warm-up, as a fix sees it in the child process.

    The arguments that `treat` is given are copies: it may call a copy of the module with them, once.
    """

    module: Any
    """torch.nn.Module"""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call: Callable[..., Any]
    """The module's own untreated call; a treated call may use it."""
    serial: str = ""
    """The same for modules that a program makes anew, step by step, in the place of each other; empty: not known."""
    signatures: tuple[str, ...] = ()
    """The shapes of its tensors in calls that an earlier run saw, as `Machine` has them."""


ENGINE = "engine"
"""`Fix.excludes` of a fix that hands the root's whole call to something else: a compiler, a graph, another runtime."""
COMPILER_RANK = 9
"""`Fix.rank` from which on a fix compiles: dear at its first call, cheap where a cache is warm."""


class Unsuitable(Exception):
    """Raised by a fix's `treat` or `set_up`: this program is not one for it. The message is the end of the sentence
    "not tried: …"."""


@dataclass(frozen=True, kw_only=True)
class Fix:
    """One cure. `treat` works on a root module; `set_up` on the whole process, before the script's first line.

    Both are context managers that put everything back when they close. `treat` yields the callable that stands in for
    the root's call from then on. `environment` is set before the child starts. At least one of the three is given.
    """

    name: str
    doc: str
    cures: tuple[str, ...]
    snippet: str
    changes_numbers: str
    """How outputs may differ, in words; empty: not at all."""
    rank: int
    """Cheapest first: 0 a flag, 5 a copy of the weights, `COMPILER_RANK` a compiler."""
    clock: Clock = "cpu"
    """What decides on a CPU: `wall` where the fix changes parallelism."""
    tolerance: float | None = None
    """Relative L2 that the fix is allowed beyond the dtype's own; None: the dtype's own."""
    applies: Callable[[Machine], str | None] = lambda _: None
    """None, or why it cannot be tried here."""
    environment: Callable[[Machine], Mapping[str, str]] = lambda _: {}
    set_up: Callable[[Machine], AbstractContextManager[None]] | None = None
    treat: Callable[[Root], AbstractContextManager[Callable[..., Any]]] | None = None
    freezes: bool = False
    """It works on a copy of the weights: weights that change afterwards make it wrong, and a trial watches for that."""
    draws_otherwise: bool = False
    """Random numbers may be drawn in another order or by other processes: training then takes another way, as good."""
    variant_of: str = ""
    """The fix that this is another setting of: `run` tries it after all others, as far as the budget lasts."""
    excludes: str = ""
    """What only one fix at a time can do, in a word ("engine", "precision"): of those with the same word, the best
    verified one goes into the joint trial."""
    of: Literal["torch", "jax", "onnx", "any"] = "torch"
    """What it treats: programs of torch, of JAX, sessions of ONNX Runtime (a `.onnx` file is the target), or all."""
    hidden: bool = False
    """Not offered and not listed; for tests and the placebo."""

    @property
    def title(self) -> str:
        """The first line of the docs."""
        return self.doc.strip().splitlines()[0]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One way of showing a diagnosis. `render` is pure: document (and the trace file, if it needs it) in, bytes out."""

    name: str
    """What `--format` calls it."""
    filename: str | None
    """Its file in the output folder; None: only for standard output."""
    render: Callable[[Diagnosis, Path | None], bytes]
    needs_trace: bool = False
    remark: Callable[[Path], str] = lambda written: ""  # noqa: ARG005  # of most files there is nothing to say
    """What the user has to know of the written file, in a sentence; "": nothing."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of trace file. `knows` looks at the first bytes (decompressed) and the path, never at the name alone."""

    name: str
    knows: Callable[[bytes, Path], bool]
    read: Callable[[Path], Trace]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A measure that can be asked for by name. Its docstring names every column with its unit."""

    name: str
    """What `profiler-doctor table` calls it."""
    of: Callable[[Trace], pd.DataFrame]

    @property
    def doc(self) -> str:
        """What a row is, and what the columns mean."""
        from inspect import getdoc

        return getdoc(self.of) or ""

    @property
    def title(self) -> str:
        """The first sentence of the docs, without the columns that it may list."""
        return self.doc.split("\n\n", maxsplit=1)[0].replace("\n", " ")
