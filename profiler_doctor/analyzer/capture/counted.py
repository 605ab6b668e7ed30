"""Record the same few steps of a program in fresh processes, so that what they do can be counted exactly."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.failing import ended_how
from profiler_doctor.analyzer.capture.hearing import Hearing
from profiler_doctor.analyzer.capture.launch import Ending, Target, Wiring
from profiler_doctor.analyzer.capture.plan import Plan, StepSource
from profiler_doctor.analyzer.errors import ScriptFailed
from profiler_doctor.analyzer.facts import Facts

COLD_STEPS = 3
"""Steps before the recording: compilers, optimizer states and caches do once in them what later steps do not."""
LEAD_STEPS = 1
"""Recorded and not counted: a step gives back what the one before it took, and that must have been seen."""
LEAST_STEPS = LEAD_STEPS + 2
"""Recorded steps without which there are no two windows to compare."""
LEAST_S = 20.0
"""A second run of a short program gets so long, whatever the budget says."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to count, and for how long."""

    target: Target
    end_s: float
    """`time.monotonic()` at which a run is ended."""
    windows: int = 5
    window_steps: int = 1
    """Steps in a window: more than one for a program that does something in every so many-th step only."""
    timed: int = 0
    """Un-profiled steps to time after the recording."""
    step_name: str | None = None
    silence_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda phase: None  # noqa: ARG005

    @property
    def steps(self) -> int:
        """Steps to record."""
        return LEAD_STEPS + self.windows * self.window_steps


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One process's recording. `trace` may be gone with its folder later on: read it at once."""

    trace: Path
    facts: Facts
    marks: tuple[Mapping[str, int], ...]
    """Where things stood at the start of each recorded step and at the end: `live_bytes` (of tensors), and what
    torch.compile had done by then, if anything: `graphs`, `graph_breaks`, `recompiles`."""
    source: StepSource | None
    """What marks a step; None: the whole script was recorded, and it is one window."""
    known_steps: int
    """How many steps the program makes by itself; 0: not known."""
    plan: Plan
    """How to record the same again."""


def recording(request: Request, folder: Path) -> Recording:
    """Run the program once or, where it is short or makes no steps, twice, and record it.

    Raises ScriptFailed where it ends, or has to be ended, before there is a recording.
    """
    request.target.check()
    first, heard = _run(request, _plan(request, folder / "1"))
    if first is not None and heard.window is not None and heard.window.steps >= LEAST_STEPS:
        return first
    plan = _second_plan(request, heard, folder / "2")
    request = replace(request, end_s=max(request.end_s, time.monotonic() + LEAST_S))
    second, _ = _run(request, plan)
    if second is None:
        raise ScriptFailed(f"{request.target.name} ended before anything was recorded when it was run a second time.")
    return second


def same_again(request: Request, before: Recording, folder: Path) -> Recording:
    """A fresh process of the same program, recorded at the same steps. Raises ScriptFailed."""
    found, _ = _run(request, replace(before.plan, folder=str(folder)))
    if found is None:
        raise ScriptFailed(f"{request.target.name} was recorded once, and ended before that when it was run again.")
    return found


def _plan(request: Request, folder: Path) -> Plan:
    return Plan(
        mode="counters",
        folder=str(folder),
        label="counters",
        steps=request.steps,
        step_name=request.step_name,
        visible=False,
        options={"cold": COLD_STEPS, "timed": request.timed, "window_steps": request.window_steps},
    )


def _second_plan(request: Request, heard: Hearing, folder: Path) -> Plan:
    """For a script that ended too soon: fewer cold steps and windows, or, where that is not enough, all of it."""
    plan = _plan(request, folder)
    usable = heard.steps - 1  # the last one's end is not marked
    if heard.source is None or usable < LEAST_STEPS:
        return replace(plan, window=True, steps=0)
    windows = max(2, min(request.windows, (usable - LEAD_STEPS) // request.window_steps))
    steps = min(usable, LEAD_STEPS + windows * request.window_steps)
    cold = min(COLD_STEPS, usable - steps)
    return replace(plan, source=heard.source, steps=steps, options={**plan.options, "cold": cold, "timed": 0})


def watched(request: Request, plan: Plan, phase: str) -> Hearing:
    """One run of the program that nobody sees. Raises ScriptFailed where it ends before it has told what it is for."""
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    request.say(phase)
    hearing = Hearing(enough_s=request.end_s, end_s=request.end_s, silence_s=request.silence_s)
    environment = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"), **request.environment}
    wiring = Wiring(log=folder / "script.log", environment=environment)
    with launch.ending_with_us(), launch.start(request.target, plan, wiring) as child:
        ending = launch.watch(child, hearing)
    _unless_failed(request, hearing, ending, wiring)
    return hearing


def _run(request: Request, plan: Plan) -> tuple[Recording | None, Hearing]:
    hearing = watched(request, plan, "counting what a step does")
    if hearing.window is None or hearing.window.events == 0:
        return None, hearing
    return _made(plan, hearing), hearing


def _made(plan: Plan, hearing: Hearing) -> Recording:
    folder = Path(plan.folder)
    marks: tuple[Mapping[str, int], ...] = ()
    with suppress(FileNotFoundError):
        marks = tuple(json.loads((folder / "marks.json").read_text(encoding="utf-8")))
    return Recording(
        trace=folder / f"{plan.label}.json",
        facts=msgspec.json.decode((folder / "facts.json").read_bytes(), type=Facts),
        marks=marks,
        source=None if plan.window else hearing.source,
        known_steps=hearing.steps if hearing.finished and not hearing.ended_at_step else 0,
        plan=plan,
    )


def _unless_failed(request: Request, heard: Hearing, ending: Ending, wiring: Wiring) -> None:
    name = request.target.name
    if heard.faults:
        raise ScriptFailed(f"Watching {name} failed on our side: {heard.faults[0]}.")
    if heard.window is not None:
        return
    if ending.ended_by_us == "silence":
        raise ScriptFailed(f"{name} gave no sign of progress for {request.silence_s:g} s (--timeout) and was ended.")
    if ending.ended_by_us:
        raise ScriptFailed(
            f"{name} was ended when the time of --budget was spent, before {request.steps} steps could be recorded. "
            "Give it a larger --budget, or mark its steps with --step."
        )
    if ending.status != 0:
        raise ScriptFailed(f"{name} {ended_how(ending.status)}. The end of what it printed:\n{_tail(wiring.log)}")
    if not heard.torch:
        raise ScriptFailed(f"{name} ended without importing torch, so there is nothing to check.")


def _tail(log: Path | None, lines: int = 15) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log is not None and log.exists() else ""
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-lines:]) or "  (nothing)"
