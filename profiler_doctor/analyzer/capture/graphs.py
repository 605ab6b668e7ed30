"""Record an ONNX graph: ONNX Runtime runs and profiles it in a process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.capture import launch, packing
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.environment import with_facts
from profiler_doctor.analyzer.capture.failing import ended_how
from profiler_doctor.analyzer.capture.launch import Child, Ending, Message, Target, Wiring
from profiler_doctor.analyzer.capture.plan import Plan, StepSource
from profiler_doctor.analyzer.errors import ScriptFailed, UserError
from profiler_doctor.analyzer.facts import Facts

RECORDER = "profiler_doctor.analyzer.capture.child.onnx_recorder"
RECORDED = "recorded.json"
SOURCE = StepSource(kind="user", words="runs of the graph")


class UnusableGraph(UserError):
    """The file is no graph that ONNX Runtime runs here."""


@dataclass(frozen=True)
class Patience:
    """Ends the recording at its time; nothing it says is awaited."""

    end_s: float

    def hear(self, message: Message) -> None:
        """It says nothing that matters: what it has goes into a file."""

    def verdict(self, _child: Child) -> str:
        """ "" to let it run on."""
        return "budget" if time.monotonic() > self.end_s else ""


def recorded(target: Target, options: Options, place: Path, known: Mapping[str, object]) -> Captured:
    """Facts and profile of the graph in the run folder `place`.

    Raises:
        UnusableGraph: ONNX Runtime is missing, cannot load the file, or cannot run it on the inputs that were made.
        ScriptFailed: the process that ran it crashed or took longer than the budget.
    """
    facts, profile = _answer(target, _ran(target, options, place), place)
    return Captured(
        folder=place,
        target=target,
        trace_file=packing.pack(profile, place / "trace.json.gz"),
        stacks_file=None,
        facts=facts,
        environment=with_facts(known, facts),
        source=SOURCE,
        known_steps=0,
        script_exit=None,
        recorded_steps=len(facts.profiled_step_ns),
    )


def _ran(target: Target, options: Options, place: Path) -> Ending:
    now_s, budget = time.monotonic(), options.budget
    options.progress("running the graph in ONNX Runtime", budget.left_s(now_s))
    words = (target.script or "", str(place), str(options.steps), f"{budget.allowance_s('observe', now_s):.3f}")
    recorder = replace(target, script=None, module=RECORDER, arguments=(*words, *target.arguments))
    plan = Plan(mode="observe", folder=str(place), visible=False)
    with launch.start(recorder, plan, Wiring(log=place / "observe.log")) as child:
        return launch.watch(child, Patience(budget.end_s))


def _answer(target: Target, ending: Ending, place: Path) -> tuple[Facts, Path]:
    answer = place / RECORDED
    if not answer.exists():
        raise ScriptFailed(_failed(target, ending, place / "observe.log"))
    said = json.loads(answer.read_bytes())
    answer.unlink()
    if "refused" in said:
        raise UnusableGraph(f"{target.name}: {said['refused']}")
    if not (place / "observe.log").stat().st_size:
        (place / "observe.log").unlink()
    return msgspec.convert(said["facts"], Facts), place / said["profile"]


def _failed(target: Target, ending: Ending, log: Path) -> str:
    if ending.ended_by_us:
        return f"{target.name} was ended when --budget was spent, before it was recorded. Give it a larger --budget."
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"The process that ran {target.name} in ONNX Runtime {ended_how(ending.status)}. {last}".rstrip()
