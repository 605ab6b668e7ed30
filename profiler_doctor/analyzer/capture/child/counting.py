"""The counted run: let the same few steps pass each time, record some windows of whole steps, time more, and end.

Which steps are recorded depends on their number alone and never on the clock, so that two runs of one program record
the same work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.account import Account
from profiler_doctor.analyzer.capture.child.arbitration import Arbiter
from profiler_doctor.analyzer.capture.child.compiled import compiled
from profiler_doctor.analyzer.capture.child.compiling import Compiling
from profiler_doctor.analyzer.capture.child.kineto import load_ahead
from profiler_doctor.analyzer.capture.child.living import living_bytes
from profiler_doctor.analyzer.capture.child.observed import Observed
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes, Stopwatch
from profiler_doctor.analyzer.kinds import Root

SETTLE_STEPS = 2
"""Steps after the recording that are not timed: writing the trace has emptied the caches."""


class Counting:
    """Conductor: what happens at a boundary is the method in `phase`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.observed = Observed(session.torch, session.marks.names)
        compiling = Compiling(session.torch, lambda: session.marks.alive)
        compiling.install()
        self.account = Account(self.observed, compiling)
        self.arbiter = Arbiter(self._step_aside)
        self.phase: Callable[[int], None] = self._pass
        options = session.plan.options
        self._cold = int(options.get("cold", 3))
        self._wanted = session.plan.steps
        self._timed = int(options.get("timed", 0))
        self._timed_ns = int(float(options.get("timed_s", 2.0)) * 1e9)
        self._settling = SETTLE_STEPS
        self._since_ns = 0
        self._recorder: Recorder | None = None
        self._marks: list[dict[str, int]] = []
        self._times = StepTimes()
        self._stopwatch = Stopwatch()
        self.observed.torch_profiles = lambda: self.arbiter.theirs or self.arbiter.recording
        self.arbiter.install(session.torch)
        self._looks = (*self.observed.install(), *self.arbiter.follow_ranges(session.torch))

    def on_boundary(self, index: int, now_ns: int) -> None:
        """The step before is over; do what is due, then let the next one begin."""
        took = self._stopwatch.read(now_ns)
        if took is not None:
            self._times.add(*took)
        self.phase(index)
        self._stopwatch.restart()

    def on_root_call(self, root: Root) -> None:
        """Calls stay as they are; the inspector looks at them."""

    def begin(self) -> None:
        """Right after the script's import of torch."""
        self.session.marks.roots.inspector = self.observed
        self.session.marks.roots.asking = False
        if self.session.plan.window:
            load_ahead(self.session.torch)
            self.phase = lambda _index: None
            self._start()

    def finish(self) -> None:
        """The script has ended: keep the whole steps that were recorded, and tell what was seen."""
        if self._recorder is not None and self._recorder.running:
            self._recorder.stop(at_boundary=False)
            self._keep(self._recorder)
        source, steps = self.session.steps_so_far()
        self.account.step_source = source.words if source is not None else ""
        self._write_facts()
        self.session.say("done", source=None if source is None else vars(source), steps=steps)

    def _pass(self, index: int) -> None:
        if index < self._cold:
            return
        self.phase = self._begin
        self._begin(index)

    def _begin(self, index: int) -> None:
        """Start as soon as nothing is in the way: whether something is depends on the script alone."""
        if not self.arbiter.free():
            return
        load_ahead(self.session.torch)
        self.account.warmup_steps = index
        self._start().step(index)
        self.phase = self._record

    def _start(self) -> Recorder:
        self._recorder = Recorder(self.session, self.arbiter, memory=True)
        self._recorder.start()
        self._note()
        return self._recorder

    def _record(self, index: int) -> None:
        recorder = self._recorder
        assert recorder is not None
        self._note()
        if len(recorder.step_names) + 1 < self._wanted:
            recorder.step(index)
            return
        recorder.stop(at_boundary=True)
        self._keep(recorder)
        self.phase = self._settle if self._timed else self._end

    def _settle(self, _index: int) -> None:
        self._settling -= 1
        if self._settling < 0:
            self._times, self._since_ns = StepTimes(), time.monotonic_ns()
            self.phase = self._time

    def _time(self, index: int) -> None:
        if len(self._times) >= self._timed or time.monotonic_ns() - self._since_ns > self._timed_ns:
            self._end(index)

    def _end(self, _index: int) -> None:
        if self._timed:
            self.account.unprofiled = self._times
        self.session.end("done")

    def _keep(self, recorder: Recorder) -> None:
        """Write the recording now, for nobody knows how the script will end."""
        self.session.marks.roots.inspector = None
        for undo in self._looks:
            undo()
        name = f"{self.session.plan.label}.json"
        self.session.say("exporting")
        events = recorder.events()
        recorder.export(self.session.path(name))
        self.session.write("marks.json", json.dumps(self._marks))
        self._write_facts()
        self.session.say("window", file=name, events=events, steps=len(recorder.step_names))

    def _note(self) -> None:
        self._marks.append({**compiled(), "live_bytes": living_bytes(self.session.torch)})

    def _step_aside(self) -> None:
        """The script starts a profiler of its own: what was recorded so far is no whole window, so it is dropped."""
        if self._recorder is not None and self._recorder.here:
            self._recorder.stop(at_boundary=False)
        self.phase = lambda _index: None

    def _write_facts(self) -> None:
        self.account.optimizer_steps = self.session.marks.optimizer_steps
        self.account.own_profiler = self.arbiter.seen_theirs
        self.session.write("facts.json", self.account.to_json())


def begin(session: Session) -> Counting:
    """The conductor of mode `counters`."""
    counting = Counting(session)
    session.finishers.append(counting.finish)
    counting.begin()
    session.listen({control.STOP: counting.finish})
    return counting
