"""What a run of the child has told us so far, and when it has gone on for long enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from profiler_doctor.analyzer.capture.launch import Child, Message
from profiler_doctor.analyzer.capture.plan import StepSource, source_from

WINDOW_S = 2.0
"""How long to record where there are no steps: thousands of ops, and a trace that can still be read."""


GRACE_S = 3.0
"""How long the script may take to reach the step at which it ends itself."""
TIMING_S = 5.0
"""How long un-profiled steps are timed after the recording at least, however late that came."""


@dataclass(frozen=True)
class Window:
    """One recording, as the child wrote it."""

    file: str
    events: int
    steps: int


@dataclass
class Hearing:
    """The overseer of one run. Times are of `time.monotonic()`."""

    enough_s: float
    """When the run may be ended once it has recorded what it was for."""
    end_s: float
    """When it is ended in any case."""
    window_at_s: float | None = None
    """When to record without steps if none were found; None: never."""
    silence_s: float | None = None
    """`--timeout`: longest time without a sign of progress."""
    torch: str = ""
    source: StepSource | None = None
    window: Window | None = None
    steps: int = 0
    """Steps that are known to have begun."""
    finished: bool = False
    """The script came to an end at which we could still look; then `steps` and `source` are final."""
    ended_at_step: bool = False
    """It ended itself because its time was up."""
    faults: list[str] = field(default_factory=list)
    """What went wrong on our side in there."""
    _heard_s: float = field(default_factory=time.monotonic)
    _recording_since_s: float | None = None
    _asked: bool = False

    def hear(self, message: Message) -> None:
        """Take in one message."""
        self._heard_s = time.monotonic()
        what = f"_on_{message['say']}"
        if hasattr(self, what):
            getattr(self, what)(message)

    def verdict(self, child: Child) -> str:
        """ "silence", "budget", or "" to go on; on the way, begin and end a window without steps."""
        now_s = time.monotonic()
        if self.silence_s is not None and now_s - self._heard_s > self.silence_s:
            return "silence"
        self._tend_window(child, now_s)
        over_s = self.end_s if self.window is None else min(self.end_s, self.enough_s + GRACE_S)
        return "budget" if now_s > over_s else ""

    def _tend_window(self, child: Child, now_s: float) -> None:
        if self._recording_since_s is not None:
            if now_s - self._recording_since_s > WINDOW_S:
                self._recording_since_s = None
                child.command("s")
        elif self.window_at_s is not None and now_s > self.window_at_s and self.torch and not self._asked:
            self._asked = True
            if self.source is None:
                child.command("w")

    def _on_torch(self, message: Message) -> None:
        self.torch = str(message["version"])

    def _on_source(self, message: Message) -> None:
        self.source = source_from(message["source"])
        self._recording_since_s = None

    def _on_step(self, message: Message) -> None:
        self.steps = max(self.steps, int(message["index"]) + 1)

    def _on_recording(self, _message: Message) -> None:
        self._recording_since_s = time.monotonic()

    def _on_window(self, message: Message) -> None:
        self.enough_s = max(self.enough_s, time.monotonic() + TIMING_S)
        self.window = Window(str(message["file"]), int(message["events"]), int(message["steps"]))

    def _on_ending(self, _message: Message) -> None:
        self.ended_at_step = True

    def _on_done(self, message: Message) -> None:
        self.finished = True
        self.source = source_from(message["source"]) or self.source
        self.steps = max(self.steps, int(message["steps"]))

    def _on_fault(self, message: Message) -> None:
        self.faults.append(f"{message['error']} ({message['at']})")
