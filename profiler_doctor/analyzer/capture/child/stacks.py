"""The second, short run: a few steps with Python stacks, to say which line an op comes from. Its times mean nothing."""

from __future__ import annotations

from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.arbitration import Arbiter
from profiler_doctor.analyzer.capture.child.kineto import load_ahead
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.kinds import Root

COLD_STEPS = 2
"""Not recorded: they do things once, such as building the optimizer's state, that later steps do not."""


class Stacks:
    """Conductor: let the cold steps pass, record `plan.steps`, write, end."""

    def __init__(self, session: Session) -> None:
        self.session = session
        plan = session.plan
        spare = plan.known_steps - plan.steps - 1 if plan.known_steps else COLD_STEPS
        self._first = max(0, min(COLD_STEPS, spare))
        self._given_up = False
        self._recorder = Recorder(session, Arbiter(self._give_up), stacks=True, memory=True)
        self._recorder.arbiter.install(session.torch)
        self._recorder.arbiter.follow_ranges(session.torch)

    def on_boundary(self, index: int, now_ns: int) -> None:  # noqa: ARG002  # of the protocol
        """Start, go on, or write and end."""
        recorder = self._recorder
        if self._given_up or self.session.plan.window:
            return
        if recorder.running and len(recorder.step_names) + 1 >= self.session.plan.steps:
            self.session.say("exporting")
            recorder.stop(at_boundary=True)
            self._write()
        elif recorder.running:
            recorder.step(index)
        elif index >= self._first and recorder.arbiter.free():
            load_ahead(self.session.torch)
            recorder.start()
            recorder.step(index)

    def on_root_call(self, root: Root) -> None:
        """Calls stay as they are."""

    def begin(self) -> None:
        """Right after the script's import of torch."""
        self.session.marks.roots.asking = False
        if self.session.plan.window:
            load_ahead(self.session.torch)
            self._recorder.start()
            self.session.say("recording")

    def finish(self) -> None:
        """The script has ended, or was told to: keep what there is."""
        if self._recorder.running and not self._given_up:
            self._recorder.stop(at_boundary=False)
            self._export()

    def stop_window(self) -> None:
        """Our process asks: enough of it."""
        if self._recorder.here:
            self.session.say("exporting")
            self._recorder.stop(at_boundary=False)
            self._write()

    def _write(self) -> None:
        self._export()
        self.session.end("done")

    def _export(self) -> None:
        name = f"{self.session.plan.label}.json"
        events = self._recorder.events()
        self._recorder.export(self.session.path(name))
        self.session.write("tensors.json", self._recorder.tensors())
        self.session.say("window", file=name, events=events, steps=len(self._recorder.step_names))

    def _give_up(self) -> None:
        """The script starts a profiler of its own, and keeps it."""
        if self._recorder.running:
            self._given_up = True
            self._recorder.stop(at_boundary=False)


def begin(session: Session) -> Stacks:
    """The conductor of mode `stacks`."""
    stacks = Stacks(session)
    session.finishers.append(stacks.finish)
    stacks.begin()
    session.listen({control.STOP: stacks.stop_window})
    return stacks
