"""Take turns with the other side of a trial: make some steps when told, say how long they took, and wait.

Both sides start at once and wait at their first step; then one after the other warms up, the treated one is treated on
the way, and both say `ready` at the same step. From then on too only the one that was given a turn runs. The wait is
inside a step boundary, so it belongs to no step.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer import plugins
from profiler_doctor.analyzer.capture.child.memory import Memory
from profiler_doctor.analyzer.capture.child.moving import Moving
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.standard import standard
from profiler_doctor.analyzer.capture.child.treat import Treatment
from profiler_doctor.analyzer.capture.plan import Plan
from profiler_doctor.analyzer.kinds import Fix, Machine, Root

RESOURCE = standard("resource")
TURN_PIPE = "turn"
"""Name in the plan of the pipe that turns come from, a JSON object a line."""
MOST_STEP_TIMES = 1000
"""Step times told per block; the block's own time is always exact."""
NO_MACHINE = Machine(
    device="none", torch=None, cpu_flags=frozenset(), cpus=1, threads=None, has_root=True, training=False
)


def begin(session: Session) -> Turns:
    """The conductor of a trial run."""
    plan = session.plan
    treatment = Treatment(session.torch, chosen(plan), plan.machine or NO_MACHINE, session.say)
    turns = Turns(session, treatment, Memory(session.torch))
    session.finishers.append(turns.over)
    turns.set_up()
    return turns


def chosen(plan: Plan) -> tuple[Fix, ...]:
    """The fixes that a plan names, ours and the user's."""
    own = [fix for file in plan.fix_files for fix in plugins.in_file(Path(file), Fix)]
    known = {fix.name: fix for fix in (*plugins.find("profiler_doctor.fixes", Fix).items, *own)}
    return tuple(known[name] for name in plan.fixes)


class Turns:
    """One side of a trial."""

    def __init__(self, session: Session, treatment: Treatment, memory: Memory) -> None:
        options = session.plan.options
        self._session = session
        self._treatment = treatment
        self._treat_after = int(options.get("treat_after", 2))
        self._ready_after = int(options.get("ready_after", 6))
        self._compare_at = frozenset(options.get("compare_at", ()))
        self._moved_at = int(options.get("moved_at", 0))
        trains = session.plan.machine is not None and session.plan.machine.training
        self._moving = Moving(session.torch) if trains and hasattr(session.torch, "nn") else None
        self._orders = os.fdopen(session.plan.pipes[TURN_PIPE], "rb", closefd=False)
        self._boundaries = 0
        self._wanted = 0
        self._settle = 0
        self._starts_ns: list[int] = []
        self._begun_cpu_ns = 0
        self._calls_before = 0
        self._roots_before = 0
        self._watched_before = 0
        self._interruptions_before = 0
        self._memory = memory

    def set_up(self) -> None:
        """Treat the whole process, before the script's next line."""
        try:
            self._treatment.set_up()
        except Exception as error:
            self._give_up(error)

    def on_root_call(self, root: Root) -> Callable[..., Any] | None:
        """Treat it, once the program has warmed up."""
        if self._boundaries < self._treat_after:
            return None
        try:
            if self._moving is not None:
                self._moving.begin(root.module)
            return self._treatment.of(root, self._compare_at)
        except Exception as error:
            self._give_up(error)
            return root.call

    def on_boundary(self, index: int, now_ns: int) -> None:  # noqa: ARG002  # our own count is the one both sides share
        """Go on, or tell about the turn that is over and wait for the next."""
        cpu_ns = time.process_time_ns()
        self._boundaries += 1
        if self._boundaries == 1:
            self._session.say("arrived")
            self._order()
        if self._boundaries == self._moved_at and self._moving is not None:
            self._session.say("moved", by=self._moving.moved())
        if self._boundaries <= self._ready_after:
            return
        if self._settle:
            self._settle -= 1
            if not self._settle:
                self._begin_block()
            return
        self._starts_ns.append(now_ns)
        if not self._wanted:
            self._say_ready()
        elif len(self._starts_ns) <= self._wanted:
            return
        elif self._memory.on_gpu:
            self._memory.finish()
            self._tell(time.perf_counter_ns(), time.process_time_ns())
        else:
            self._tell(now_ns, cpu_ns)
        self._wait()

    def over(self) -> None:
        """The script has ended, or we end it."""
        self._session.say("over", steps=self._boundaries)

    def _say_ready(self) -> None:
        if not self._treatment.took_hold:
            whys = self._treatment.unsuitable or ["no module was called"]
            self._session.say("unsuitable", why=whys[0])
            self._session.end("unsuitable")
        self._session.say("ready", steps=self._boundaries)

    def _tell(self, now_ns: int, cpu_ns: int) -> None:
        starts = self._starts_ns
        times = [later - earlier for earlier, later in pairwise(starts)]
        self._session.say(
            "block",
            steps=self._wanted,
            wall_ns=now_ns - starts[0],
            cpu_ns=cpu_ns - self._begun_cpu_ns,
            step_ns=times[:MOST_STEP_TIMES],
            calls=self._treatment.calls - self._calls_before,
            clean=len(self._treatment.roots) == self._roots_before
            and self._treatment.watched_calls == self._watched_before,
            stale=self._treatment.stale(),
            peak_bytes=self._memory.peak_bytes(),
            interruptions=_interruptions() - self._interruptions_before,
        )

    def _wait(self) -> None:
        """Until the next turn. The first steps after a wait find cold caches, so some are made before time is taken."""
        order = self._order()
        self._wanted, self._settle = int(order["steps"]), int(order["settle"])
        if not self._settle:
            self._begin_block()

    def _order(self) -> dict[str, Any]:
        line = self._orders.readline()
        if not line:  # our process is gone
            os._exit(0)
        order: dict[str, Any] = json.loads(line)
        return order

    def _begin_block(self) -> None:
        """Steps are timed from here on; what this boundary took belongs to none."""
        self._memory.finish()
        self._calls_before = self._treatment.calls
        self._roots_before = len(self._treatment.roots)
        self._watched_before = self._treatment.watched_calls
        self._interruptions_before = _interruptions()
        self._begun_cpu_ns = time.process_time_ns()
        self._starts_ns = [time.perf_counter_ns()]

    def _give_up(self, error: Exception) -> None:
        self._session.say("failed", error=f"{type(error).__name__}: {error}")
        self._session.end("failed")


def _interruptions() -> int:
    return int(RESOURCE.getrusage(RESOURCE.RUSAGE_SELF).ru_nivcsw)
