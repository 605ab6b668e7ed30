"""The observed run: warm up, time some steps, record a few, time more of them until the script ends.

Only un-profiled steps tell how long a step takes; the recorded ones tell where the time goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

from profiler_doctor.analyzer.capture.child import control
from profiler_doctor.analyzer.capture.child.function_costs import function_ns
from profiler_doctor.analyzer.capture.child.kineto import load_ahead
from profiler_doctor.analyzer.capture.child.masks import square_masks
from profiler_doctor.analyzer.capture.child.observed import copy_bytes_per_s
from profiler_doctor.analyzer.capture.child.ourranges import OurRanges
from profiler_doctor.analyzer.capture.child.recorder import Recorder
from profiler_doctor.analyzer.capture.child.session import Session
from profiler_doctor.analyzer.capture.child.steptimes import StepTimes, Stopwatch
from profiler_doctor.analyzer.capture.child.watching import Watching
from profiler_doctor.analyzer.capture.child.window import Window
from profiler_doctor.analyzer.kinds import Root

MAX_WARM_UP = 10
"""Steps after which recording begins whether steady or not; VERIFY.md 4.2: one iteration is the usual warm-up."""
TIMED_BEFORE = 3
"""Steady steps timed before anything is recorded, so that a drift shows against those timed after."""
TIMED_AFTER = 5
"""Steps timed after the recording even where the time for it is over."""
MAX_EVENTS = 200_000
"""About 80 MB of JSON and 5 s of stopping and writing; a longer window says nothing new."""
FEWEST_WITH_A_COLD_ONE = 3
"""Steps a program must make for its first, cold one not to be recorded: the last one's end is not seen."""
LEAST_WINDOW_NS = 2_000_000_000
"""Recording may take so long even where the time for it is over."""
PATIENCE = 10
"""Boundaries at which we must not record, after which we give up: the script's own profiler is on, or a range is open
that a profiler before ours saw begin."""


class Observe:
    """Conductor of the observed run: what happens at a boundary is the method in `phase`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.watching = Watching(session, self._step_aside)
        self.account, self.arbiter = self.watching.account, self.watching.arbiter
        self.phase: Callable[[int], None] = self._warm_up
        self._current = StepTimes()
        """Takes the time of the step under way."""
        self._stopwatch = Stopwatch()
        self._recorder: Recorder | None = None
        self._window = Window(session, self.arbiter)
        """For want of steps."""
        self._pilot: Recorder | None = None
        self._wanted = session.plan.steps
        self._first_ns = 0
        self._written = False
        self._waited = self._timed = 0
        self._nvtx = OurRanges(session.torch)

    def on_boundary(self, index: int, now_ns: int) -> None:
        """The step before is over; do what is due, then let the next one begin."""
        took = self._stopwatch.read(now_ns)
        if took is not None:
            self._current.add(*took, self.watching.observed.loading_ns())
        self.phase(index)
        if self.session.time_is_up() and self._enough():
            self.session.end("budget")
        self._nvtx.step(index)
        self.watching.observed.loading_ns()
        self._stopwatch.restart()

    def on_root_call(self, root: Root) -> None:
        """Roots are looked at by the inspector; their calls stay as they are."""

    def begin(self) -> None:
        """Right after the script's import of torch."""
        self.watching.begin()
        if self.session.plan.window:
            self._window.begin()
            self.phase = lambda _index: None

    def finish(self) -> None:
        """The script has ended: keep what was recorded of whole steps, and tell what was seen."""
        self._keep_window()
        self._stop_early("the script ended")
        source, steps = self.session.steps_so_far()
        self.account.steps_made = 0 if self.session.ended_by_us else steps
        early = self._note_early_steps()
        if not len(self.account.unprofiled):
            self.account.unprofiled = early.and_then(self._current) if self.phase == self._warm_up else early
        self.watching.finish(source, steps)

    def record_window(self) -> None:
        """Our process asks: no step was found so far; record a piece of time instead."""
        if self.session.marks.index < 0 and not self._written:
            self._window.begin()

    def stop_window(self) -> None:
        """Our process asks: that is enough of it."""
        self._keep_window()
        if not self.session.plan.visible:
            self.session.end("done")

    def _keep_window(self) -> None:
        """Write the window, unless steps have been found in the meantime."""
        window = self._window.end()
        if window is not None and (self.session.marks.index < 0 or self.session.plan.window):
            self._export(window)

    def _warm_up(self, index: int) -> None:
        plan, warm = self.session.plan, self._current
        if not self._first_ns:
            self._first_boundary()
        self.watching.observed.alive.look(index)
        late = time.monotonic_ns() - self._first_ns > plan.warm_up_s * 1e9
        ready = len(warm) >= TIMED_BEFORE and (warm.steady() or len(warm) >= MAX_WARM_UP or late)
        if ready or (plan.quick and (index > 0 or plan.known_steps < FEWEST_WITH_A_COLD_ONE)):
            self._note_early_steps()
            self.account.unprofiled = warm.last(TIMED_BEFORE)
            self.account.warmup_steps = max(0, index - len(self.account.unprofiled))
            self._start(index)

    def _first_boundary(self) -> None:
        """Import what the profiler needs while no step is under way, and take over what was seen before."""
        self._first_ns = time.monotonic_ns()
        self._nvtx.phase("warm-up")
        self._window.end()  # not kept: now there are steps
        self._written = False
        if not self.arbiter.theirs:  # theirs has loaded it, and would record how we do
            load_ahead(self.session.torch)
        self._note_early_steps()
        source = self.session.marks.source
        self.account.step_source = source.words if source is not None else ""

    def _note_early_steps(self) -> StepTimes:
        """The first step of all is the cold one; those after it that were seen before the first boundary."""
        early = StepTimes()
        starts = self.session.marks.early
        for (wall_ns, cpu_ns), (next_wall_ns, next_cpu_ns) in pairwise(starts):
            early.add(next_wall_ns - wall_ns, next_cpu_ns - cpu_ns)
        if self.account.cold_step_ns is None:
            self.account.cold_step_ns = next(iter([*early.wall_ns, *self._current.wall_ns]), None)
        return early.last(len(early) - 1)

    def _start(self, index: int) -> None:
        """Record one step to see how much a step records; where steps are few, record at once."""
        if not self.arbiter.free():
            self._wait()
            return
        self._nvtx.phase("record")
        self._recorder = self._begin_recording(index)
        self._current = StepTimes()
        self.phase = self._record if self.session.plan.quick or self._wanted == 1 else self._weigh_pilot

    def _wait(self) -> None:
        self._waited += not self._window.open  # a window on another thread is soon over
        self._current = self.account.unprofiled
        self.phase = self._start if self._waited < PATIENCE else self._time

    def _weigh_pilot(self, _index: int) -> None:
        pilot, took_ns = self._recorder, self._current.wall_ns[-1]
        assert pilot is not None
        pilot.stop(at_boundary=True)
        affordable = self._affordable(pilot.events(), took_ns)
        if affordable < self._wanted:
            self.account.cut.append(
                f"{affordable} instead of {self._wanted} steps were recorded, because one of them holds "
                f"{pilot.events():,} events and took {took_ns / 1e9:.1f} s under the profiler."
            )
        if affordable == 1:
            self._close_window(pilot)
            return
        self._wanted, self.account.profiled, self._pilot = affordable, self._current, pilot
        self._current = StepTimes()
        self.phase = self._record_for_good

    def _record_for_good(self, index: int) -> None:
        """A step later, when ranges that the pilot saw begin have ended. Where one never does, the pilot is kept."""
        assert self._pilot is not None
        if self.arbiter.free():
            self._recorder, self._current = self._begin_recording(index), StepTimes()
            self.phase = self._record
        elif self._waited < PATIENCE:
            self._waited += 1
        else:
            self._current = self.account.profiled
            self._close_window(self._pilot)

    def _affordable(self, events: int, step_ns: int) -> int:
        """Steps that fit into the limit of events and into half of the time that is left, at least one."""
        steps = min(self._wanted, MAX_EVENTS // max(events, 1))
        if self.session.plan.end_by_ns:
            left_ns = (self.session.plan.end_by_ns - time.monotonic_ns()) // 2
            steps = min(steps, max(left_ns, LEAST_WINDOW_NS) // max(step_ns, 1))
        return max(1, steps)

    def _begin_recording(self, index: int) -> Recorder:
        recorder = Recorder(self.session, self.arbiter)
        recorder.start()
        recorder.step(index)
        return recorder

    def _record(self, index: int) -> None:
        assert self._recorder is not None
        if len(self._recorder.step_names) + 1 >= self._wanted:
            self._recorder.stop(at_boundary=True)
            self._close_window(self._recorder)
        else:
            self._recorder.step(index)

    def _close_window(self, recorder: Recorder) -> None:
        """The window is recorded: write it now, for nobody knows how the script will end."""
        self.account.profiled, self._current = self._current, StepTimes()
        self._recorder = self._pilot = None
        self.watching.end()
        self._export(recorder)
        self.watching.observed.alive.look(self.session.marks.index)
        self.watching.observed.alive.look_for_tiny()
        self.phase = self._settle

    def _export(self, recorder: Recorder) -> None:
        self.watching.export(recorder, lambda: self._account_for(recorder))

    def _account_for(self, recorder: Recorder) -> None:
        self._written = True
        device = self.watching.observed.device
        self.account.copy_bytes_per_s = copy_bytes_per_s(self.session.torch, device)
        self.account.function_ns = function_ns(self.session.torch, device)
        self.account.masks = square_masks(self.session.torch)
        self.account.shared_inputs = recorder.shared_inputs()

    def _settle(self, _index: int) -> None:
        """One step for caches that writing the trace has emptied; it is not timed."""
        self._nvtx.phase("time")
        self.watching.observed.pauses.sum_up()
        self._current = self.account.unprofiled
        self.phase = self._time

    def _time(self, _index: int) -> None:
        self._timed += 1
        self.watching.observed.alive.look(self.session.marks.index)
        if self._timed & (self._timed - 1) == 0:  # ever more seldom: it takes time from the script
            self.watching.write_facts()

    def _enough(self) -> bool:
        """Whether nothing is lost by ending the script; until then it may use more than this phase's share."""
        return self._timed >= TIMED_AFTER

    def _stop_early(self, why: str) -> None:
        """Keep the whole steps of a recording that is cut off."""
        recorder = self._recorder
        if recorder is None or not (recorder.running or recorder is self._pilot):
            return
        recorder.stop(at_boundary=False)
        self._recorder = None
        kept = recorder if recorder.step_names else self._pilot
        if kept is None:
            return
        if kept is not self._pilot:
            self.account.profiled = self._current.last(len(kept.step_names))
        if len(kept.step_names) < self._wanted:
            self.account.cut.append(f"{len(kept.step_names)} instead of {self._wanted} steps were recorded: {why}.")
        self._export(kept)

    def _step_aside(self) -> None:
        """The script starts a profiler of its own."""
        self._window.end()  # not kept: too short
        if self._recorder is None or not self._recorder.here:
            return
        self._stop_early("the script started a profiler of its own")
        self.phase = self._settle if self._written else self._start
        self._current = StepTimes()


def begin(session: Session) -> Observe:
    """The conductor of mode `observe`."""
    observe = Observe(session)
    session.finishers.append(observe.finish)
    observe.begin()
    session.listen({control.RECORD: observe.record_window, control.STOP: observe.stop_window})
    return observe
