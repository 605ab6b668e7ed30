"""The observed run of a JAX script: warm up, time some steps, let JAX profile a few, and time more of them.

JAX's profiler is asked for no Python frames: they would make a step of many small calls several times as long.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.capture import processors
from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.jax_samples import Passed, Row, SampleWatch
from profiler_doctor.analyzer.capture.child.jax_session import JaxMarks
from profiler_doctor.analyzer.capture.child.observe import FEWEST_WITH_A_COLD_ONE, MAX_WARM_UP, TIMED_AFTER
from profiler_doctor.analyzer.capture.child.own_code import short
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes, Stopwatch
from profiler_doctor.analyzer.facts import Facts, RootFacts
from profiler_doctor.analyzer.jax_facts import JaxFacts, SampleLoopFacts
from profiler_doctor.analyzer.kinds import Root

TIMED_BEFORE = 3
SEEN_CALLS = 64
"""Calls whose arguments' shapes are looked at."""
FILE = ".xplane.pb"


class JaxObserve:
    """Conductor of the observed run: what happens at a boundary is the method in `phase`."""

    def __init__(self, session: Session, marks: JaxMarks) -> None:
        self.session = session
        self.marks = marks
        marks.samples = SampleWatch()  # of the first step, which is a cold one
        marks.row = Row()
        self.recording = Recording(session.torch)
        self.phase: Callable[[int], None] = self._warm_up
        self._cold_ns: int | None = None
        self._unprofiled, self._profiled, self._current = StepTimes(), StepTimes(), StepTimes()
        self._stopwatch = Stopwatch()
        self._begun_ns = time.monotonic_ns()
        self._warm_up_steps = 0
        self._cut: list[str] = []
        self._shapes: set[str] = set()
        self._objects = 0
        self._object: Any = None

    def on_boundary(self, index: int, now_ns: int) -> None:  # noqa: ARG002  # that was before waiting for the step's end
        """The step before is over; do what is due, then let the next one begin."""
        self.marks.finish()  # a call returns before its arrays are computed: its step would take no time at all
        took = self._stopwatch.read(time.perf_counter_ns())
        if took is not None:
            self._current.add(*took)
            self._cold_ns = self._cold_ns or took[0]
        self.phase(index)
        if self.session.time_is_up() and (self.phase == self._time and len(self._current) >= TIMED_AFTER):
            self.session.end("budget")
        self._stopwatch.restart()

    def on_root_call(self, root: Root) -> None:
        """The function is called as it is; what it is given at first is seen."""
        if self.marks.calls > SEEN_CALLS:
            return
        self._objects += root.call is not self._object
        self._object = root.call
        leaves = self.session.torch.tree_util.tree_leaves((root.args, dict(root.kwargs)))
        self._shapes.add(" ".join(str(getattr(leaf, "shape", "")) for leaf in leaves))

    def finish(self) -> None:
        """The script has ended: keep what was recorded of whole steps, and tell what was seen."""
        if self.recording.running:
            self._close_window(at_boundary=False)
        source, steps = self.session.steps_so_far()
        if not len(self._unprofiled):
            self._unprofiled = self._current
        self._write_facts(0 if self.session.ended_by_us else steps)
        self.session.say("done", source=None if source is None else vars(source), steps=steps)

    def record_window(self) -> None:
        """Our process asks: no step was found so far; record a piece of time instead."""
        if self.marks.index < 0 and not self.recording.over:
            self.recording.start()
            self.session.say("recording")

    def stop_window(self) -> None:
        """Our process asks: that is enough of it."""
        if self.recording.running and self.marks.index < 0:
            self._close_window(at_boundary=True)
        if not self.session.plan.visible:
            self.session.end("done")

    def _warm_up(self, index: int) -> None:
        plan, warm = self.session.plan, self._current
        late = time.monotonic_ns() - self._begun_ns > plan.warm_up_s * 1e9
        ready = len(warm) >= TIMED_BEFORE and (warm.steady() or len(warm) >= MAX_WARM_UP or late)
        if not ready and not (plan.quick and (index > 0 or plan.known_steps < FEWEST_WITH_A_COLD_ONE)):
            return
        self._unprofiled = warm.last(TIMED_BEFORE)
        self._warm_up_steps = max(0, index - len(self._unprofiled))
        self.recording.start()
        self.recording.step(index)
        self._current, self.phase = StepTimes(), self._record

    def _record(self, index: int) -> None:
        if len(self.recording.steps) < self.session.plan.steps:
            self.recording.step(index)
            return
        self._close_window(at_boundary=True)

    def _close_window(self, *, at_boundary: bool) -> None:
        """Write the recording now, for nobody knows how the script will end."""
        name = f"{self.session.plan.label}{FILE}"
        self.session.say("exporting")
        whole = self.recording.stop(self.session.path(name))
        self._profiled, self._current = self._current, self._unprofiled
        self._write_facts(0)
        if whole:
            steps = len(self.recording.steps) - (not at_boundary)
            self.session.say("window", file=name, events=whole, steps=max(0, steps))
        self.phase = self._time

    def _time(self, index: int) -> None:
        if index & (index - 1) == 0:  # ever more seldom: it takes time from the script
            self._write_facts(0)

    def _write_facts(self, steps_made: int) -> None:
        later = self._current if self.phase == self._time else self._unprofiled
        source, place = self.marks.source, self.marks.function
        facts = Facts(
            roots=(_root(place.name, self.marks.calls),) if place is not None else (),
            step_source=source.words if source is not None else "",
            device="cpu" if self.session.torch.default_backend() == "cpu" else "cuda",
            cpus=processors.usable_cpus(),
            threads=processors.usable_cpus(),  # XLA's pool has one for each
            cpu_flags=processors.cpu_flags(),
            warmup_steps=self._warm_up_steps,
            cold_step_ns=self._cold_ns,
            profiled_step_ns=tuple(self._profiled.wall_ns),
            step_ns=tuple(later.wall_ns),
            step_cpu_ns=tuple(later.cpu_ns),
            cut=tuple(self._cut),
            source_folder=os.path.realpath(sys.path[0]) if sys.path else "",
            steps_made=steps_made,
            jax=JaxFacts(
                version=str(self.session.torch.__version__),
                function=place.name if place is not None else "",
                file=place.file if place is not None else "",
                line=place.line if place is not None else 0,
                jitted=place is not None and place.jitted,
                shapes=len(self._shapes),
                objects=self._objects,
                loops=(*map(_loop, self.marks.passed), *_row(self.marks)),
            ),
        )
        self.session.write("facts.json", json.dumps(asdict(facts)))


class Recording:
    """JAX's own profiler, once."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self._folder = ""
        self._mark: Any = None
        self.steps: list[int] = []
        self.running = self.over = False

    def start(self) -> None:
        """Record from now on. Raises RuntimeError where the script profiles itself."""
        self._folder = tempfile.mkdtemp(prefix="profiler-doctor-")
        options = self._jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        self._jax.profiler.start_trace(self._folder, profiler_options=options)
        self.running = True

    def step(self, index: int) -> None:
        """A step ends, and another begins."""
        self._end_step()
        self.steps.append(index)
        self._mark = self._jax.profiler.StepTraceAnnotation("ProfilerStep", step_num=index)
        self._mark.__enter__()

    def stop(self, target: Path) -> int:
        """Write what was recorded to `target`; the size in bytes, 0 where there is nothing."""
        self._end_step()
        self._jax.profiler.stop_trace()
        self.running, self.over = False, True
        found = next(Path(self._folder).rglob(f"*{FILE}"), None)
        if found is not None:
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copyfile(found, part)
            part.replace(target)
        shutil.rmtree(self._folder, ignore_errors=True)
        return target.stat().st_size if found is not None else 0

    def _end_step(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)


def _loop(passed: Passed) -> SampleLoopFacts:
    loop = passed.loop
    return SampleLoopFacts(
        callee=passed.callee, function=f"{loop.function}()", file=short(loop.file), line=loop.line, calls=passed.calls
    )


def _row(marks: JaxMarks) -> tuple[SampleLoopFacts, ...]:
    row, function = marks.row, marks.function
    if row is None or function is None or not row.samples:
        return ()
    holder = "the script" if row.function == "<module>" else f"{row.function}()"
    place = {"file": short(row.file), "line": row.line}
    return (SampleLoopFacts(callee=function.name, function=holder, calls=row.longest, outside=True, **place),)  # type: ignore[arg-type]


def _root(name: str, calls: int) -> RootFacts:
    return RootFacts(
        name=name,
        calls=calls,
        training=False,
        grad_enabled=False,
        output_requires_grad=False,
        autocast=None,
        parameter_bytes=0,
        parameter_dtypes=(),
        input_ranks=(),
        signatures=(),
        compiled=False,
    )


def begin(session: Session) -> JaxObserve:
    """The conductor of mode `observe`."""
    observe = JaxObserve(session, session.marks)  # type: ignore[arg-type]  # a JaxSession's marks
    session.finishers.append(observe.finish)
    if session.plan.window:
        observe.record_window()
    session.listen({control.RECORD: observe.record_window, control.STOP: observe.stop_window})
    return observe
