"""What a run that records keeps in sight: how the script works with torch, from its import until the trace is there."""

from __future__ import annotations

from collections.abc import Callable

from profiler_doctor.analyzer.capture.child.account import Account
from profiler_doctor.analyzer.capture.child.arbitration import Arbiter
from profiler_doctor.analyzer.capture.child.compiling import Compiling
from profiler_doctor.analyzer.capture.child.observed import Observed
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.replacing import Undo
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.plan import StepSource


class Watching:
    """Looks on until `end`, and gives account of it."""

    def __init__(self, session: Session, step_aside: Callable[[], None]) -> None:
        """`step_aside` is called when the script starts a profiler of its own."""
        self.session = session
        self.observed = Observed(session.torch, session.marks.names)
        compiling = Compiling(session.torch, lambda: session.marks.alive)
        compiling.install()
        self.account = Account(self.observed, compiling)
        self.arbiter = Arbiter(step_aside)
        self._looks: tuple[Undo, ...] = ()

    def begin(self) -> None:
        """Right after the script's import of torch."""
        torch, roots = self.session.torch, self.session.marks.roots
        self.observed.torch_profiles = lambda: self.arbiter.theirs or self.arbiter.recording
        self.arbiter.install(torch)
        self._looks = (*self.observed.install(), *self.arbiter.follow_ranges(torch))
        roots.inspector, roots.asking = self.observed, False

    def end(self) -> None:
        """Look no longer: it takes time from the script."""
        self.session.marks.roots.inspector = None
        for undo in self._looks:
            undo()

    def export(self, recorder: Recorder, beside: Callable[[], None]) -> None:
        """Write the recording now, for nobody knows how the script will end; `beside` adds what goes with it."""
        name = f"{self.session.plan.label}.json"
        self.session.say("exporting")
        events = recorder.events()
        recorder.export(self.session.path(name))
        beside()
        self.write_facts()
        self.session.say("window", file=name, events=events, steps=len(recorder.step_names))

    def write_facts(self) -> None:
        """What is known so far."""
        self.account.optimizer_steps = self.session.marks.optimizer_steps
        self.account.own_profiler = self.arbiter.seen_theirs
        self.session.write("facts.json", self.account.to_json())

    def finish(self, source: StepSource | None, steps: int) -> None:
        """The script has ended: tell what was seen, and the steps that the session counts now."""
        self.account.step_source = source.words if source is not None else ""
        self.write_facts()
        self.session.say("done", source=None if source is None else vars(source), steps=steps)
