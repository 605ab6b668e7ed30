"""One side of a trial of a JAX script: the turns of every trial, with fixes put in the place of the user's function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from profiler_doctor.analyzer.capture.child.first_calls import FirstCalls, as_json
from profiler_doctor.analyzer.capture.child.holding import Holding
from profiler_doctor.analyzer.capture.child.jax_compare import JaxShadow, copied
from profiler_doctor.analyzer.capture.child.jax_session import JaxMarks
from profiler_doctor.analyzer.capture.child.memory import held_at_most
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.treat import in_order
from profiler_doctor.analyzer.capture.child.turns import NO_MACHINE, Turns, chosen
from profiler_doctor.analyzer.kinds import Fix, Machine, Root, Unsuitable


def begin(session: Session) -> Turns:
    """The conductor of a trial run."""
    plan, marks = session.plan, session.marks
    treatment = JaxTreatment(session, chosen(plan), plan.machine or NO_MACHINE)
    turns = Turns(session, treatment, Queue(marks))  # type: ignore[arg-type]  # they are asked the same things
    session.finishers.append(turns.over)
    turns.set_up()
    return turns


class Queue:
    """The end of what XLA was given to do: a call returns before its arrays are computed, on a CPU too."""

    on_gpu = True
    """Here: whether there is something to wait for."""

    def __init__(self, marks: Any) -> None:
        self._marks: JaxMarks = marks

    def finish(self) -> None:
        """Work that is still queued belongs to the block before."""
        self._marks.finish()

    def peak_bytes(self) -> int:
        """The most that the process ever held."""
        return held_at_most()


class JaxTreatment(Holding):
    """The fixes of one run on the user's function; what `Treatment` is for modules."""

    def __init__(self, session: Session, fixes: tuple[Fix, ...], machine: Machine) -> None:
        self.jax = session.torch
        self.fixes = in_order(fixes)
        self.machine = machine
        self.say = session.say
        self.roots: list[FunctionCall] = []
        self.unsuitable: list[str] = []
        self.notes: list[str] = []
        self.watched_calls = 0
        self._open = ExitStack()

    def set_up(self) -> None:
        """What the fixes do to the whole process."""
        for fix in self.fixes:
            if fix.set_up is not None:
                self._open.enter_context(fix.set_up(self.machine))

    def of(self, root: Root, compare_at: frozenset[int] = frozenset()) -> Callable[..., Any]:
        """What stands in for the function from now on. Raises what a fix raises, but for Unsuitable."""
        begun, call = time.perf_counter(), root.call
        try:
            for treat in (fix.treat for fix in self.fixes if fix.treat is not None):
                args, kwargs = copied(self.jax, (root.args, dict(root.kwargs)))
                treated = self._open.enter_context(treat(Root(root.module, args, kwargs, call)))
                self.notes += filter(None, [getattr(treated, "note", "")])
                call = getattr(treated, "call", treated)
        except Unsuitable as why:
            self.unsuitable.append(str(why))
        allowed = max((fix.tolerance or 0.0 for fix in self.fixes), default=0.0)
        shadow = JaxShadow(self.jax, root.call, allowed) if compare_at else None
        stand_in = FunctionCall(self, FirstCalls(call, shadow, compare_at, time.perf_counter() - begun), call)  # type: ignore[arg-type]  # a shadow of another kind
        self.roots.append(stand_in)
        return stand_in

    def stale(self) -> bool:
        """No fix freezes arrays that are no arguments without the comparison showing it."""
        return False


class FunctionCall:
    """The function's calls from now on: timed and compared at first, passed on afterwards."""

    def __init__(self, treatment: JaxTreatment, first: FirstCalls, call: Callable[..., Any]) -> None:
        self.calls = 0
        self._treatment = treatment
        self._first: FirstCalls | None = first
        self._later: FirstCalls | None = None
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call in the function's place."""
        self.calls += 1
        if self._first is not None:
            return self._watched(self._first, args, kwargs)
        if self._later is not None and self._later.shapes.new(args, kwargs):
            return self._watched(self._later, args, kwargs)
        return self._call(*args, **kwargs)

    def _watched(self, first: FirstCalls, args: Any, kwargs: Mapping[str, Any]) -> Any:
        treatment = self._treatment
        treatment.watched_calls += 1
        try:
            output = first.call(args, kwargs)
        except Exception as error:
            self._first = self._later = None
            treatment.say("failed", error=f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
            raise
        if first.over:
            self._first, self._later = None, first if first.compares else None
            compared, notes = as_json(first.comparison), list(dict.fromkeys(treatment.notes))
            treatment.say("treated", root=0, cold_s=first.cold_s, comparison=compared, notes=notes)
        return output
