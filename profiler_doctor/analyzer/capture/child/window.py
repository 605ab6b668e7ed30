"""A piece of time, recorded where a program makes no steps."""

from __future__ import annotations

from profiler_doctor.analyzer.capture.child.arbitration import Arbiter
from profiler_doctor.analyzer.capture.child.kineto import load_ahead
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.session import Session


class Window:
    """At most one recording at a time, begun and ended on the thread that is told to."""

    def __init__(self, session: Session, arbiter: Arbiter) -> None:
        self._session = session
        self._arbiter = arbiter
        self._recorder: Recorder | None = None

    @property
    def open(self) -> bool:
        """Whether it is being recorded."""
        return self._recorder is not None

    def begin(self) -> None:
        """Record from now on, unless another profiler is at work."""
        if self._arbiter.free():
            load_ahead(self._session.torch)
            self._recorder = Recorder(self._session, self._arbiter)
            self._recorder.start()
            self._session.say("recording")

    def end(self) -> Recorder | None:
        """Stop, and give what was recorded; None where there is nothing, or where only another thread can end it."""
        recorder = self._recorder
        if recorder is None or not recorder.here:
            return None
        self._recorder = None
        recorder.stop(at_boundary=False)
        return recorder
