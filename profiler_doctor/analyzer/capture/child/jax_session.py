"""Our session in a process whose script imports JAX and not torch: steps are calls of a function of the user's own.

Steps are `profiler_doctor.step()` where the script says so; else the calls of the function that is a loop's body
(`jax_steps.py`), be it compiled (`jax_jitted.py`) or not. There are no modules to see: an array program is functions
alone.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import get_ident
from types import CodeType, FunctionType
from typing import Any

from profiler_doctor.analyzer.capture.child import jax_derived, jax_jitted, users_function
from profiler_doctor.analyzer.capture.child.jax_jitted import JITTED, Compiled, Function
from profiler_doctor.analyzer.capture.child.jax_samples import Passed, Row, SampleWatch, look_into, watched
from profiler_doctor.analyzer.capture.child.jax_steps import Looking
from profiler_doctor.analyzer.capture.child.marks import Conductor
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.plan import FUNCTION, SourceKind, StepSource
from profiler_doctor.analyzer.kinds import Root

CONDUCTORS = {"observe": "jax_observe", "trial": "jax_turns"}
"""Mode of the plan → module beside this one. In other modes nothing of JAX is watched."""


class JaxSession(Session):
    """As a session with torch, but for what is hooked into. `torch` is the module `jax`."""

    def start(self) -> None:
        """Hook in."""
        self.marks = marks = JaxMarks(self)  # type: ignore[assignment]  # the part of Marks that is asked of it
        name = CONDUCTORS.get(self.plan.mode)
        if name is not None:
            marks.conductor = importlib.import_module(f"profiler_doctor.analyzer.capture.child.{name}").begin(self)
        self._undo.append(jax_jitted.listen(self.torch, marks.compiled))
        self._undo.append(jax_derived.listen(self.torch, marks.compiled, marks.is_computing))
        if self.plan.source is not None and self.plan.source.function:
            marks.hear(self.plan.source)
        elif self.plan.mode == "observe" and threading.current_thread() is threading.main_thread():
            marks.looking = Looking(marks.found)
            self._undo.append(marks.looking.stop)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.finish)
        self.say("torch", version=f"JAX {self.torch.__version__}")


class JaxMarks:
    """The marks of one run of a JAX script; what `Marks` is for one of torch."""

    def __init__(self, session: Session) -> None:
        self.conductor: Conductor | None = None
        self.source = session.plan.source
        self.roots = self  # both are asked to be removed
        self.alive = True
        self.index = -1
        self.calls = 0
        self.function: Function | None = None
        self.last: Any = None
        """What the function returned last; its arrays may still be being computed."""
        self.looking: Looking | None = None
        self.samples: SampleWatch | None = None
        """Watches the next call of the function that makes the steps, for loops over samples."""
        self.row: Row | None = None
        """Sees whether each step is a sample; None: nobody asks."""
        self.passed: tuple[Passed, ...] = ()
        """The loops over samples that a call goes through."""
        self._compiled = ""
        """The key of the compiled function whose calls are steps."""
        self._session = session
        self._owner: int | None = None
        self.is_computing = _computing(session.torch)
        self._inside = False
        self._of: object | None = None
        self._first: Callable[..., Any] = callable
        self._treated: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        """The function that was treated, and what stands in for it."""

    def seen(self, kind: SourceKind, token: str) -> None:  # noqa: ARG002  # the token of a mark says nothing here
        """One mark, now, on this thread."""
        if self.alive and self.source is None and kind == "user":
            self.source = StepSource(kind="user", words="profiler_doctor.step()")
            self._session.say("source", source=vars(self.source))
        if self.alive and self.source is not None and self.source.kind == kind and self._mine():
            self._boundary()

    def hear(self, source: StepSource) -> None:
        """See the calls of the user's function that an earlier run found; from the second one on if not compiled."""
        if source.pattern == (JITTED,):
            self._compiled = source.function
        else:
            users_function.at_first_call(source.function, self._replace, self._session.guarded)

    def found(self, body: CodeType | Compiled) -> None:
        """This function is the body of the script's loop: its calls are steps, where no steps are marked."""
        with self._session.guarded():
            if isinstance(body, Compiled):
                self._compiled, self.function = body.key, body.function
                token, key = JITTED, body.key
            else:
                self._replace(body)
                token, key = FUNCTION, users_function.key_of(body)
            assert self.function is not None
            known = self.source or StepSource(kind="module", words=f"calls of {self.function.name}")
            self.source = replace(known, pattern=(token,), function=key)
            self._session.say("source", source=vars(self.source))

    def compiled(self, one: Compiled, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Any call of a function that the script compiled."""
        if one.key == self._compiled:
            self.function = one.function
            return self._called(one.real, args, kwargs, one.of)
        if SampleWatch.open is not None:
            SampleWatch.open.compiled(one, args, kwargs)
        if self.looking is None or self.looking.over:
            return one.real(*args, **kwargs)
        return self.looking.compiled(one, lambda: one.real(*args, **kwargs))

    def remove(self) -> None:
        """Nothing of the script's is held back any more: the function is called as it is."""
        self.alive = False

    def close(self) -> StepSource | None:
        """No more marks."""
        self.alive = False
        return self.source

    def steps_seen(self, source: StepSource | None) -> int:  # noqa: ARG002  # one source alone
        """How many steps the run made."""
        return self.index + 1

    def finish(self) -> None:
        """Wait for what the last call is still computing."""
        if self.last is not None:
            self._session.torch.block_until_ready(self.last)

    def _mine(self) -> bool:
        self._owner = self._owner or get_ident()
        return self._owner == get_ident()

    def _boundary(self) -> None:
        now_ns = time.perf_counter_ns()
        self.index += 1
        self._session.sign_of_life(self.index, now_ns)
        with self._session.guarded():
            if self.conductor is not None:
                self.conductor.on_boundary(self.index, now_ns)

    def _replace(self, code: CodeType) -> None:
        self.function = Function.of(code)
        users_function.replace(code, self._stand_in)

    def _stand_in(self, real: FunctionType) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            return self._called(real, args, kwargs)

        return called

    def _called(
        self, real: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], of: object | None = None
    ) -> Any:
        """One call of the function that makes the steps."""
        if self._inside or not self.alive or not self._mine() or not self.is_computing():
            return real(*args, **kwargs)
        self.calls += 1
        if self.row is not None:
            self.row.called(sys._getframe(1))
        self.seen("module", "")
        self._inside = True
        try:
            call = self._call_for(real, self._first_of(real, of), args, kwargs)
            self.last = call(*args, **kwargs) if self.samples is None else self._watched(call, args, kwargs)
        finally:
            self._inside = False
        return self.last

    def _watched(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        assert self.samples is not None
        assert self.function is not None
        try:
            if not self.function.jitted:
                return watched(call, args, kwargs, self.samples)
            with self._session.guarded():
                look_into(self._session.torch, call, args, kwargs, self.samples)
            return call(*args, **kwargs)
        finally:
            self.passed, self.samples = self.samples.passed(), None

    def _first_of(self, real: Callable[..., Any], of: object | None) -> Callable[..., Any]:
        """Of functions that the script makes anew, in each other's place, the first one: it stands for all."""
        if of is None or of is not self._of:
            self._of, self._first = of, real
        return self._first

    def _call_for(
        self, real: Callable[..., Any], known: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Callable[..., Any]:
        if self._treated is None and self.conductor is not None:
            with self._session.guarded():
                treated = self.conductor.on_root_call(Root(self.function, args, kwargs, known))
                self._treated = None if treated is None else (known, treated)
        if self._treated is None or self._treated[0] is not known:  # another function of the same name
            return real
        return self._treated[1]


def _computing(jax: Any) -> Callable[[], bool]:
    """What tells whether calls compute now: while JAX traces, they are only looked at."""
    found: Callable[[], bool] | None = getattr(jax._src.core, "trace_state_clean", None)
    return found or (lambda: True)
