"""One side of a trial: a child process that makes steps of the user's program when it is told to."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from profiler_doctor.analyzer.capture import launch
from profiler_doctor.analyzer.capture.plan import Plan
from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix, Unsuitable
from profiler_doctor.analyzer.trial_block import Block, Treated
from profiler_doctor.analyzer.trial_memory import MemoryWatch
from profiler_doctor.analyzer.trial_program import Pace, Program

LISTEN_S = 0.2
GRACE_S = 0.2
"""A throw-away process is not given long to close its files."""
LONG_SILENCE_S = 5.0
"""From here on it is worth saying."""
PATIENT_SHARE, PATIENT_SHARE_OF_ENGINES = 0.25, 0.5
"""Share of the budget after which silence is a failure: exporting or compiling a model says nothing for long."""
TIMES_THE_UNTREATED = 2
"""... on top of this many times what the untreated program took for the same: a fix that is this slow has lost."""
TURN_PIPE = "turn"


class Over(Exception):
    """The script came to its own end; `steps` is how many it made."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"the script ended after {steps} steps")
        self.steps = steps


class Broken(Exception):
    """The side failed: an exception in it, a crash, or silence for too long. The message says which."""


class NoTime(Exception):
    """The time given to the trial has passed. The message says what it was spent on, where that is known."""


class Arm:
    """One side, with its process. Leaving its `with` block ends the process and everything it started."""

    def __init__(self, program: Program, label: str, fixes: tuple[Fix, ...]) -> None:
        self.program = program
        self.label = label
        self.fixes = fixes
        self._treated: dict[int, Treated] = {}
        self.moved: tuple[float, ...] = ()
        """How far each of its weights had come after a few steps; empty: not told, or it does not train."""
        self.steps = 0
        """Boundaries passed by the process at hand."""
        self._child: launch.Child | None = None
        self._memory: MemoryWatch | None = None
        self._orders = -1
        self.usual_s = 0.0
        """What the untreated program took for what is awaited, s; of the treated side alone."""

    @property
    def treated(self) -> tuple[Treated, ...]:
        """What is known of the answers of each root, from the latest comparison of the process that compares."""
        return tuple(self._treated.values())

    @property
    def log(self) -> Path:
        """What the script printed."""
        return self.program.folder / f"{self.label}.log"

    def __enter__(self) -> Arm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, known_steps: int, pace: Pace) -> None:
        """A fresh process; returns at once."""
        self.close()
        self.steps = 0
        turns, self._orders = os.pipe()
        plan = Plan(
            mode="trial",
            folder=str(self.program.folder),
            label=self.label,
            source=self.program.source,
            known_steps=known_steps,
            visible=False,
            fixes=tuple(fix.name for fix in self.fixes),
            fix_files=self.program.fix_files,
            machine=self.program.machine,
            options=vars(pace),
        )
        wiring = launch.Wiring(log=self.log, pipes={TURN_PIPE: turns}, environment=self._environment())
        try:
            self._child = launch.start(self.program.target, plan, wiring)
            self._memory = MemoryWatch(self._child.process.pid)
        finally:
            os.close(turns)

    def arrive(self, by_ns: int) -> float:
        """Wait until it stands at its first step: what comes before that may go on beside the other side.

        Returns the seconds that were waited, as `ready` does."""
        begun_s = time.monotonic()
        self._heard("arrived", by_ns)
        return time.monotonic() - begun_s

    def ready(self, by_ns: int) -> float:
        """Let it warm up, be treated and be compared, alone: two programs of several threads stall each other."""
        begun_s = time.monotonic()
        self._tell({"do": "warm up"})
        self.steps = int(str(self._heard("ready", by_ns)["steps"]))
        return time.monotonic() - begun_s

    def run(self, steps: int, settle: int, by_ns: int) -> Block:
        """Let it make `settle` steps, then `steps` that are timed, and wait for them.

        Raises:
            Over: the script ended before they were made.
            Broken: it failed.
            NoTime: `time.monotonic_ns()` went past `by_ns`.
        """
        self._tell({"steps": steps, "settle": settle})
        said = dict(self._heard("block", by_ns))
        self.steps += settle + steps
        said["step_ns"] = tuple(said["step_ns"])
        said.pop("say")
        return Block(**said)

    def _tell(self, order: Mapping[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `_heard` finds out
            os.write(self._orders, (json.dumps(order) + "\n").encode())

    def close(self) -> None:
        """End the process and all that it started."""
        if self._orders >= 0:
            os.close(self._orders)  # it reads the end of its orders, and leaves
            self._orders = -1
        child, self._child = self._child, None
        if child is not None:
            child.end(GRACE_S)
            child.__exit__(None, None, None)

    def _environment(self) -> dict[str, str]:
        machine = self.program.machine
        environment = dict(self.program.environment)
        for fix in self.fixes:
            environment |= fix.environment(machine)
            if fix.rank >= COMPILER_RANK:  # cold at first and warm later, whatever was compiled here before
                environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.program.folder / "compile-cache")
        return environment

    def _heard(self, awaited: str, by_ns: int) -> launch.Message:
        """The awaited message; what comes before it is taken note of."""
        assert self._child is not None
        assert self._memory is not None
        heard_ns = time.monotonic_ns()
        while True:
            ended = self._child.poll() is not None  # asked first: what it said before is then all in the pipe
            messages = self._child.messages(0.0 if ended else LISTEN_S)
            for message in messages:
                if message["say"] == awaited:
                    return message
                self._note(message)
            now_ns = time.monotonic_ns()
            if messages:
                heard_ns = now_ns
            elif ended:
                self._ended()
            elif (excess := self._memory.excess()) is not None:
                raise Broken(excess)
            elif now_ns > by_ns:
                raise self._out_of_time((now_ns - heard_ns) / 1e9)
            elif (now_ns - heard_ns) / 1e9 > (patience_s := self._patience_s()):
                raise Broken(f"it gave no sign of progress for {patience_s:.3g} s")

    def _patience_s(self) -> float:
        """How long it may say nothing: as the user said, or as the budget and the untreated program allow."""
        if self.program.silence_s is not None:
            return self.program.silence_s
        if not self.fixes:
            return math.inf  # nothing says how long the script's own steps may take
        share = PATIENT_SHARE_OF_ENGINES if self._slow_to_begin else PATIENT_SHARE
        return max(LONG_SILENCE_S, share * self.program.budget_s) + TIMES_THE_UNTREATED * self.usual_s

    @property
    def _slow_to_begin(self) -> bool:
        return any(fix.rank >= COMPILER_RANK or fix.excludes == ENGINE for fix in self.fixes)

    def _out_of_time(self, silent_s: float) -> Exception:
        """A fix that has no reason to be slow, and has long been silent when its time is over, hangs."""
        hangs = silent_s > max(LONG_SILENCE_S, self.usual_s)
        if self.fixes and not self._slow_to_begin and hangs:
            return Broken(f"it gave no sign of progress for {silent_s:.3g} s, and its time was over")
        return NoTime(self._silence(silent_s))

    def _silence(self, silent_s: float) -> str:
        """What to say of a side that has said nothing for so long when its time is over."""
        if silent_s < LONG_SILENCE_S:
            return ""
        side = "treated" if self.fixes else "untreated"
        return f"the {side} program had given no sign of progress for {silent_s:.0f} s"

    def _note(self, message: launch.Message) -> None:
        said = message["say"]
        if said == "failed":
            raise Broken(str(message["error"]))
        if said == "fault":
            raise Broken(f"our own part of the child failed: {message['error']} at {message.get('at', '?')}")
        if said == "unsuitable":
            raise Unsuitable(str(message["why"]))
        if said == "moved":
            self.moved = tuple(message["by"])
        if said == "over":
            self.steps = int(message["steps"])
        if said == "treated" and message["comparison"]:  # a process that compares nothing tells nothing new
            notes = tuple(message.get("notes", ()))
            found = Treated(cold_s=float(message["cold_s"]), notes=notes, **_answers(message["comparison"]))
            self._treated[int(message["root"])] = found

    def _ended(self) -> None:
        assert self._child is not None
        status = self._child.process.returncode
        if status == self.program.usual_exit:
            raise Over(self.steps)
        if status < 0:
            raise Broken(f"the process was ended by signal {-status}")
        raise Broken(self._last_line() or f"the script ended with exit status {status}")

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")[:300]
        return ""


def _answers(comparison: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: comparison[name] for name in ("equal", "error", "tolerance")}
    return {**kept, "reasons": tuple(comparison["reasons"])}
