"""The counted run: let the same few steps pass each time, record some windows of whole steps, time more, and end.

Which steps are recorded depends on their number alone and never on the clock, so that two runs of one program record
the same work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.compiled import compiled
from profiler_doctor.analyzer.capture.child.kineto import load_ahead
from profiler_doctor.analyzer.capture.child.living import living_bytes
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes, Stopwatch
from profiler_doctor.analyzer.capture.child.watching import Watching
from profiler_doctor.analyzer.kinds import Root

SETTLE_STEPS = 2
"""Steps after the recording that are not timed: writing the trace has emptied the caches."""


class Counting:
    """Conductor: what happens at a boundary is the method in `phase`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.watching = Watching(session, self._step_aside)
        self.account, self.arbiter = self.watching.account, self.watching.arbiter
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
        self.watching.begin()
        if self.session.plan.window:
            load_ahead(self.session.torch)
            self.phase = lambda _index: None
            self._start()

    def finish(self) -> None:
        """The script has ended: keep the whole steps that were recorded, and tell what was seen."""
        if self._recorder is not None and self._recorder.running:
            self._recorder.stop(at_boundary=False)
            self._keep(self._recorder)
        self.watching.finish(*self.session.steps_so_far())

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
        self.watching.end()
        self.watching.export(recorder, lambda: self.session.write("marks.json", json.dumps(self._marks)))

    def _note(self) -> None:
        self._marks.append({**compiled(), "live_bytes": living_bytes(self.session.torch)})

    def _step_aside(self) -> None:
        """The script starts a profiler of its own: what was recorded so far is no whole window, so it is dropped."""
        if self._recorder is not None and self._recorder.here:
            self._recorder.stop(at_boundary=False)
        self.phase = lambda _index: None


def begin(session: Session) -> Counting:
    """The conductor of mode `counters`."""
    counting = Counting(session)
    session.finishers.append(counting.finish)
    counting.begin()
    session.listen({control.STOP: counting.finish})
    return counting
