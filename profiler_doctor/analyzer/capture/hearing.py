"""What a run of the child has told us so far, and when it has gone on for long enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from profiler_doctor.analyzer.capture.launch import Child, Message
from profiler_doctor.analyzer.capture.plan import FUNCTION, StepSource, source_from

WINDOW_S = 2.0
"""How long to record where there are no steps: thousands of ops, and a trace that can still be read."""


GRACE_S = 3.0
"""How long the script may take to reach the step at which it ends itself."""
ASK_AGAIN_S = 1.0
EXPORT_S = 20.0
"""What was recorded is worth waiting for: stopping and writing a large trace with stacks takes so long."""
STACKED_WINDOW_S = 0.5
"""As `WINDOW_S`, with stacks, which make ten events of one."""
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
    window_after_s: float | None = None
    """How long after the import of torch to record without steps, where none were found; None: never."""
    window_s: float = WINDOW_S
    """How long to record then."""
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
    _recording: bool = False
    _ask_at_s: float = 0.0

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
        """Ask for a window where no steps were found, and for its end; again and again, for the child may be busy."""
        if self.window_after_s is None or self.window is not None or now_s < self._ask_at_s:
            return
        if self._recording:
            child.command("s")
            self._recording = self.source is None  # with steps, it is dropped at the first of them
        elif self.source is None and self.torch:
            child.command("w")
        self._ask_at_s = now_s + ASK_AGAIN_S

    def _on_torch(self, message: Message) -> None:
        self.torch = str(message["version"])
        self._ask_at_s = time.monotonic() + (self.window_after_s or 0.0)

    def _on_source(self, message: Message) -> None:
        self.source = source_from(message["source"])

    def _on_function(self, message: Message) -> None:
        words = f"calls of {message['name']}()"
        self.source = StepSource(kind="module", pattern=(FUNCTION,), words=words, function=str(message["key"]))
        self.steps = int(message["calls"])

    def _on_step(self, message: Message) -> None:
        self.steps = max(self.steps, int(message["index"]) + 1)

    def _on_recording(self, _message: Message) -> None:
        self._recording = True
        self._ask_at_s = time.monotonic() + self.window_s

    def _on_exporting(self, _message: Message) -> None:
        self.end_s = max(self.end_s, time.monotonic() + EXPORT_S)

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
