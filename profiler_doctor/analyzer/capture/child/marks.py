"""Turn what the program does into step boundaries, and tell a conductor.

A boundary is the start mark of a step; it may block, and what a conductor does in it belongs to no step.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident
from typing import Any, Protocol

from profiler_doctor.analyzer.capture.child.discovery import Discovery, settled
from profiler_doctor.analyzer.capture.child.following import Follower
from profiler_doctor.analyzer.capture.child.replacing import keep_from_compilers
from profiler_doctor.analyzer.capture.child.roots import Roots
from profiler_doctor.analyzer.capture.plan import Plan, SourceKind, StepSource
from profiler_doctor.analyzer.kinds import Root

PROBATION_STEPS = 2
"""Steps that a guessed source must foretell before it is believed: a prefill interrupts a run of equal decode calls."""


Instant = tuple[int, int]
"""Wall clock and process CPU clock, ns."""


class Conductor(Protocol):
    """Who decides what happens at the marks of one run. Called on the thread that makes the steps, never nested."""

    def on_boundary(self, index: int, now_ns: int) -> None:
        """Step `index` begins; `now_ns` is `time.perf_counter_ns()` when the step before it ended.

        May block (turn-taking), record, or end the run. The first index is not always 0: steps that were needed to
        find the marks have passed.
        """
        ...

    def on_root_call(self, root: Root) -> Callable[..., Any] | None:
        """An outermost module is about to be called, possibly before any boundary.

        A callable returned stands in for this module's call from now on, this call included, and the conductor is not
        asked about this module again; return `root.call` to leave it as it is for good. None: ask again next time.
        Calls of modules inside it never come here, nor do calls that the callable itself makes.
        """
        ...


class Marks:
    """The marks of one run, and the boundaries found in them."""

    def __init__(self, torch: Any, plan: Plan, conductor: Conductor) -> None:
        self.conductor = conductor
        self.plan = plan
        self.torch = torch
        self.names: dict[str, str] = {}
        self.roots = Roots(torch, self)
        self.source = plan.source
        self.index = -1
        """The step that has begun last; -1 before the first."""
        self.guarded: Callable[[], AbstractContextManager[None]] = nullcontext
        """Around what is ours in the script's calls: a fault in there must not become the script's."""
        self.on_source: Callable[[StepSource], None] = lambda _source: None
        self.early: list[Instant] = []
        """When the steps began that passed before the first boundary, and the first boundary."""
        self._learning: dict[int, Discovery] = {}
        self._times: dict[tuple[int, SourceKind], list[Instant]] = defaultdict(list)
        self._follower = Follower(plan.source) if plan.source else None
        self._settled = plan.source is not None
        self._roots_settled = False
        self._owner: int | None = None
        self._busy = False
        self._believed_at = 0
        self.optimizer_exists = False
        keep_from_compilers(Marks.seen, inside=True)
        self.alive = True
        self.optimizer_steps = 0

    @property
    def detail(self) -> int:
        """How much a module's token must say; 2 while sources are still weighed."""
        return self.source.detail if self._settled and self.source is not None else 2

    def listens_here(self) -> bool:
        """Whether marks of this thread can count."""
        return self._owner is None or self._owner == get_ident()

    def seen(self, kind: SourceKind, token: str) -> None:
        """One mark, now, on this thread."""
        if not self.alive:
            return
        if not self._settled:
            self._learn(kind, token)
        elif self.source is not None and self.source.kind == kind and self.listens_here():
            self._owner = get_ident()
            if self._follower is not None and self._follower.starts_step(token):
                self._boundary()

    def close(self) -> StepSource | None:
        """No more marks. The source followed, or the best guess now that the program has ended."""
        self.alive = False
        self.roots.alive = False
        if self.source is not None:
            return settled(self.source)
        guesses = (learner.at_the_end() for learner in self._learning.values())
        best = next(filter(None, guesses), None)
        return None if best is None else settled(best)

    def steps_seen(self, source: StepSource | None) -> int:
        """How many steps the whole run made, by all that was seen of it."""
        if self._settled or source is None:
            return self.index + 1
        self.early = max((self._starts(thread, source) for thread in self._learning), key=len, default=[])
        return len(self.early)

    def _starts(self, thread: int, source: StepSource) -> list[Instant]:
        """When steps would have begun on a thread, had the source been known from the start."""
        follower = Follower(source)
        begins = [follower.starts_step(token) for token in self._learning[thread].tokens[source.kind]]
        return [now for now, begin in zip(self._times[thread, source.kind], begins, strict=True) if begin]

    def _learn(self, kind: SourceKind, token: str) -> None:
        thread = get_ident()
        if thread not in self._learning:
            self._learning[thread] = Discovery(self.plan.step_name, lambda: self.optimizer_exists, self.names)
        learner = self._learning[thread]
        self._times[thread, kind].append(_now())
        found = learner.add(kind, token)
        if kind == "optimizer" and self.source is not None and self.source.kind == "module":
            self.source = self._follower = self._owner = None  # more than one call may go into one of its steps
        if self.source is None or (found is not None and found.kind != self.source.kind):
            self._consider(found, learner)
        elif self.source.kind == kind and self._owner == thread:
            self._on_probation(token)

    def _consider(self, found: StepSource | None, learner: Discovery) -> None:
        """A source was found, or a better one. What it would have said so far tells how many steps have passed."""
        if found is None:
            return
        self.source, self._owner = found, get_ident()
        self._follower = Follower(found)
        starts = [self._follower.starts_step(token) for token in learner.tokens[found.kind]]
        self._follower.misfits = 0
        times = self._times[get_ident(), found.kind]
        self.early = [now for now, begins in zip(times, starts, strict=True) if begins]
        self.index = sum(starts) - 2 if starts[-1] else sum(starts) - 1
        self._believed_at = self.index + 1 + (PROBATION_STEPS if found.pattern else 0)
        if starts[-1]:
            self._begin_if_believed()

    def _on_probation(self, token: str) -> None:
        assert self._follower is not None
        begins = self._follower.starts_step(token)
        if self._follower.misfits:
            self.source = self._follower = self._owner = None
        elif begins:
            self.early.append(_now())
            self._begin_if_believed()

    def _begin_if_believed(self) -> None:
        if self.index + 1 < self._believed_at or self.source is None:
            self.index += 1
            return
        self.source = settled(self.source)
        self._follower = Follower(self.source)
        if self.source.pattern:
            self._follower.starts_step(self.source.pattern[0])
        self._settled = True
        self._learning.clear()
        self._times.clear()
        self.on_source(self.source)
        self._boundary()

    def _boundary(self) -> None:
        now_ns = time.perf_counter_ns()
        if self._busy:
            return
        self.index += 1
        self._busy = True
        try:
            if self.index >= 1 and not self._roots_settled:  # every root has been called by now
                self._roots_settled = True
                self.roots.settle()
            self.conductor.on_boundary(self.index, now_ns)
        finally:
            self._busy = False


def user_mark() -> None:
    """`profiler_doctor.step()` in the user's script."""
    session = sys.modules.get("profiler_doctor.analyzer.capture.child.session")
    marks: Marks | None = getattr(session, "marks", None)
    if marks is not None:
        marks.seen("user", "")


def _now() -> Instant:
    return time.perf_counter_ns(), time.process_time_ns()
