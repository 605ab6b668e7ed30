"""Our one session in the user's process: begun right after its first `import torch`, gone when the process is.

A fault of ours must never become the user's: whatever fails here is told to our own process and the script goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.capture.child import control, forking, ranges, sources, tracebacks
from profiler_doctor.analyzer.capture.child.marks import Conductor, Marks
from profiler_doctor.analyzer.capture.plan import Plan, StepSource

CONDUCTORS = {
    "observe": "observe",
    "stacks": "stacks",
    "trial": "turns",
    "counters": "counting",
    "lines": "lines",
    "functions": "functions",
}
"""Mode of the plan → module beside this one, whose `begin(session)` gives the conductor of the run."""
ALIVE_EVERY_NS = 250_000_000
"""How often a step is told as a sign of life: often enough for a deadline of seconds, too seldom to cost."""
SWALLOWED_ENDS = 3
"""A script that catches our SystemExit this often (a bare `except:` in its loop) is left by `os._exit`."""

marks: Marks | None = None
"""The marks of this process; None where nobody watches, and in forked children."""
_of_jax: Session | None = None
"""The session of a script that has imported JAX and, so far, not torch."""


class Ended(SystemExit):
    """Leaves the script at a step boundary with exit status 0: `finally` blocks run, no traceback is shown."""


class Session:
    """What a conductor may use: the plan, torch, messages to our process, and the ways to end."""

    def __init__(self, torch: Any, plan: Plan) -> None:
        self.torch = torch
        self.plan = plan
        self.pid = os.getpid()
        self.begun_ns = time.monotonic_ns()
        self.finishers: list[Callable[[], None]] = []
        """Called once when the script ends by itself, or when it is ended."""
        self.marks: Marks
        self.over = False
        """The script has ended; what is left is ours."""
        self.profiled = False
        """We have used torch's profiler in this process."""
        self._last_sign_ns = 0
        self._ends = 0
        self._guard = _Guard(self)
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        """Hook in. The conductor's module decides what happens from here on."""
        module = importlib.import_module(f"profiler_doctor.analyzer.capture.child.{CONDUCTORS[self.plan.mode]}")
        relay = _Relay(self)
        self.marks = Marks(self.torch, self.plan, relay)
        self.marks.guarded = self.guarded
        self.marks.on_source = lambda source: self.say("source", source=vars(source))
        if self.plan.step_name is not None:
            ranges.mirror.on_range = self._ranged
        relay.conductor = module.begin(self)
        self.marks.roots.install()
        self._undo += sources.listen(self.torch, self.marks)
        if self.plan.source is not None and self.plan.source.function:
            from profiler_doctor.analyzer.capture.child import users_function

            users_function.hear(self.marks.roots, self.torch, self.plan.source.function, self.guarded)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.finish)
        self.say("torch", version=str(self.torch.__version__))

    def say(self, what: str, **more: object) -> None:
        """One message to our process; lost where nobody listens any more."""
        if self.plan.report_fd >= 0:
            with contextlib.suppress(OSError):
                os.write(self.plan.report_fd, (json.dumps({"say": what, **more}) + "\n").encode())

    def sign_of_life(self, index: int, now_ns: int) -> None:
        """Tell that a step began, now and then."""
        if now_ns - self._last_sign_ns > ALIVE_EVERY_NS:
            self._last_sign_ns = now_ns
            self.say("step", index=index)

    def time_is_up(self) -> bool:
        """Whether the run was to end by now."""
        return 0 < self.plan.end_by_ns <= time.monotonic_ns()

    def path(self, name: str) -> Path:
        """A file of this run in the run folder."""
        return Path(self.plan.folder, name)

    def write(self, name: str, text: str) -> None:
        """A small file of this run, whole or not at all."""
        part = self.path(f"{name}.{self.pid}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.path(name))

    def finish(self) -> None:
        """Let the conductor write what it has. Runs once, in the process that was started, at whatever end."""
        if os.getpid() != self.pid:
            return
        self.over = True
        finishers, self.finishers = self.finishers, []
        for finisher in finishers:
            with self.guarded():
                finisher()

    def listen(self, orders: Mapping[str, Callable[[], None]]) -> None:
        """Carry out these orders of our process, and its order to leave."""
        control.listen(
            self.plan.control_fd,
            {letter: self._carefully(order) for letter, order in orders.items()},
            self.end_on_request,
        )

    def _carefully(self, order: Callable[[], None]) -> Callable[[], None]:
        def carried_out() -> None:
            with self.guarded():
                order()

        return carried_out

    def end_on_request(self) -> None:
        """Our process asks us to end; it may do so while that happens already."""
        if not self._ends:
            self.end("request")

    @property
    def ended_by_us(self) -> bool:
        """Whether the run was cut off at our wish, and not over by itself."""
        return self._ends > 0

    def end(self, why: str) -> None:
        """End the run here, at a step boundary: softly where the user watches, at once where nobody does."""
        if self.over:
            return
        self.say("ending", why=why)
        self._ends += 1
        if self.plan.visible and self._ends <= SWALLOWED_ENDS and threading.current_thread() is threading.main_thread():
            raise Ended(0)
        self.finish()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)

    def stop_watching(self) -> None:
        """Take all hooks out; the script runs on as if we had never been here."""
        self.marks.roots.remove()
        self.marks.alive = False
        for undo in self._undo:
            undo()
        self._undo.clear()

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Swallow a fault of ours after telling it, and stop watching; `Ended` passes."""
        return self._guard

    def steps_so_far(self) -> tuple[StepSource | None, int]:
        """The source of the run's steps as far as it can be told at the end, and how many it made."""
        source = self.marks.close()
        return source, self.marks.steps_seen(source)

    def _ranged(self, name: str) -> None:
        if name == self.plan.step_name:
            self.marks.seen("range", "")

    def _forked(self) -> None:
        """A forked child is none of our business: data-loading workers must run as they would without us."""
        global marks  # noqa: PLW0603  # the process has one session, and now it has none
        marks = None
        self.finishers.clear()
        if self.profiled:
            forking.exit_past_destructors()
        with contextlib.suppress(Exception):
            self.stop_watching()
        for descriptor in (self.plan.report_fd, self.plan.control_fd, *self.plan.pipes.values()):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


class _Guard(contextlib.AbstractContextManager[None]):
    def __init__(self, session: Session) -> None:
        self.session = session

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self.session.say("fault", error=f"{type(error).__name__}: {error}", at=tracebacks.last_place(error))
        with contextlib.suppress(Exception):
            self.session.stop_watching()
        return True


class _Relay:
    """Stands between the marks and the conductor: signs of life, and faults kept from the script."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.conductor: Conductor

    def on_boundary(self, index: int, now_ns: int) -> None:
        self.session.sign_of_life(index, now_ns)
        with self.session.guarded():
            self.conductor.on_boundary(index, now_ns)

    def on_root_call(self, root: Any) -> Callable[..., Any] | None:
        with self.session.guarded():
            return self.conductor.on_root_call(root)
        return None


def imported(name: str, plan_text: str) -> None:
    """A module that we wait for was just imported in the process that our plan is for."""
    global marks  # noqa: PLW0603  # one process, one session
    if name == "nvtx":
        ranges.watch_nvtx(sys.modules["nvtx"])
        return
    if name == "jax" and "torch" in sys.modules:  # a package that knows both: the program is one of torch
        return
    if _of_jax is not None:  # likewise
        _of_jax.finishers.clear()
        _of_jax.stop_watching()
    session = _session(name, Plan.from_json(plan_text))
    tracebacks.keep_ours_out()
    with session.guarded():
        session.start()
        marks = session.marks


def _session(name: str, plan: Plan) -> Session:
    global _of_jax  # noqa: PLW0603  # one process, one session
    if name == "jax":
        from profiler_doctor.analyzer.capture.child.jax_session import JaxSession

        _of_jax = JaxSession(sys.modules["jax"], plan)
        return _of_jax
    ranges.watch_torch(sys.modules["torch"])
    return Session(sys.modules["torch"], plan)
