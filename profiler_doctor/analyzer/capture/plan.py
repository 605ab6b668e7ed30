"""What one watched run of the user's program is asked to do: written by our process, read in the child.

Standard library alone, because the user's process loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from profiler_doctor.analyzer.kinds import Machine

PLAN_VARIABLE = "PROFILER_DOCTOR_PLAN"
"""The environment variable that carries the plan, as JSON, to the child; the child takes it out at once."""

Mode = Literal["observe", "stacks", "trial", "counters", "lines", "functions"]
SourceKind = Literal["user", "profiler", "range", "optimizer", "module"]
FUNCTION = "function"
"""The token of a call of the user's own function, where that stands for a root module."""


@dataclass(frozen=True, kw_only=True)
class StepSource:
    """What marks the start of a step, once that is known; later runs of the same program are told it."""

    kind: SourceKind
    pattern: tuple[str, ...] = ()
    """The tokens of one step in order (`optimizer`, `module`); empty: every mark starts a step."""
    detail: int = 0
    """How much a module's token says: 0 which module, 1 also its training flag, 2 also its input shapes."""
    words: str = ""
    """For people: "optimizer.step of AdamW", "calls of ResNet"."""
    function: str = ""
    """`module`: it is not a module but this function of the user's own, by file, first line and name."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of the child. Pipe ends are file descriptors in the child; -1: there is none."""

    mode: Mode
    folder: str
    """Absolute path of the folder that this run may write to."""
    label: str = "observe"
    """Tells the runs of one diagnosis apart; the stem of the files it writes."""
    steps: int = 5
    """How many steps to record."""
    step_name: str | None = None
    """`--step`: the repeated range that marks a step."""
    source: StepSource | None = None
    """What an earlier run found; None: find out."""
    window: bool = False
    """No steps were found before: record from the import of torch on, without steps."""
    quick: bool = False
    """The program makes too few steps for a warm-up: record as soon as there is a step."""
    known_steps: int = 0
    """How many steps an earlier, complete run made; 0: unknown."""
    visible: bool = True
    """The user watches this run: end it by leaving the script, never by `os._exit`."""
    warm_up_s: float = 10.0
    """How long warming up may take before steps are recorded whether steady or not."""
    end_by_ns: int = 0
    """`time.monotonic_ns()` at which the run ends itself at the next step; 0: never."""
    parent: int = 0
    report_fd: int = -1
    """Where the child writes its messages, a JSON object a line."""
    control_fd: int = -1
    """Where the child reads our one-byte commands when we send it SIGURG."""
    pipes: Mapping[str, int] = field(default_factory=dict)
    """More pipe ends, by the names the mode gives them."""
    fixes: tuple[str, ...] = ()
    """Fixes to apply in a trial; empty: the untreated arm."""
    fix_files: tuple[str, ...] = ()
    """Absolute paths of the user's own files of fixes, to look for names in beside ours."""
    machine: Machine | None = None
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else a mode wants to know, as JSON values."""

    def to_json(self) -> str:
        """The plan as one line of JSON."""
        return json.dumps(asdict(self), default=sorted, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that `to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        raw["source"] = _source(raw["source"])
        raw["machine"] = _machine(raw["machine"])
        raw["fixes"] = tuple(raw["fixes"])
        raw["fix_files"] = tuple(raw["fix_files"])
        return Plan(**raw)


def _source(raw: dict[str, Any] | None) -> StepSource | None:
    return None if raw is None else StepSource(**{**raw, "pattern": tuple(raw["pattern"])})


def source_from(raw: Mapping[str, Any] | None) -> StepSource | None:
    """The step source in a child's message, None where it found none."""
    return _source(None if raw is None else dict(raw))


def _machine(raw: dict[str, Any] | None) -> Machine | None:
    if raw is None:
        return None
    sets = {name: frozenset(raw[name]) for name in ("cpu_flags", "input_ranks", "onnx_providers")}
    return Machine(**{**raw, **sets, "signatures": tuple(raw["signatures"])})
