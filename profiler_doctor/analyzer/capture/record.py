"""Record the user's program: one run that they watch, and short ones that nobody sees, all in the time given."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import msgspec

from profiler_doctor.analyzer.capture import failing, folder, launch, packing
from profiler_doctor.analyzer.capture.beside import taken_tensors
from profiler_doctor.analyzer.capture.captured import Captured, Options
from profiler_doctor.analyzer.capture.environment import environment, with_facts
from profiler_doctor.analyzer.capture.hearing import GRACE_S, STACKED_WINDOW_S, WINDOW_S, Hearing
from profiler_doctor.analyzer.capture.launch import Ending, Target, Wiring
from profiler_doctor.analyzer.capture.plan import Plan
from profiler_doctor.analyzer.facts import Facts
from profiler_doctor.analyzer.files import write_whole

LEAST_S = 5.0
"""Below this a throw-away run need not begin: importing torch alone can take as long."""
USUAL_S = 15.0
"""What a throw-away run gets at least, where there is as much: on a busy machine the profiler's imports take 10 s."""
WARM_UP_SHARE = 0.25
STACKED_STEPS = 2
FEWEST_TO_WARM_UP = 12
"""Steps of a program from which on some may be spent on warming up."""
LONG_STEP_S = 1.0
"""A step so long is enough by itself to name its lines."""
STEPS_BEFORE_LINES = 3
"""Two cold ones and the one that is recorded: less than that the run with stacks never takes."""
MANY_EVENTS = 20_000
"""Events of a step from which one step with stacks is enough: stacks make ten of one."""


def capture(target: Target, options: Options) -> Captured:
    """Run the program, record it, and keep what came of it in a new run folder, to which `latest` then points.

    Call from the main thread. Raises UserError where there is nothing to run, ScriptFailed where the program ended,
    or had to be ended, before anything was recorded. SIGTERM and Ctrl-C leave no child and no half-written file.
    """
    target.check()
    known = environment(("python", *target.command))
    place = folder.make(target.name, Path.cwd(), datetime.now())  # the user's own clock
    with launch.ending_with_us(), folder.kept_if_whole(place):
        captured = _recorded(target, options, place, known)
        write_whole(place / "environment.json", json.dumps(captured.environment, indent=1).encode())
        write_whole(place / "facts.json", json.dumps(asdict(captured.facts)).encode())
    folder.point_latest(place)
    return captured


def _recorded(target: Target, options: Options, place: Path, known: Mapping[str, object]) -> Captured:
    if target.is_graph:
        from profiler_doctor.analyzer.capture.graphs import recorded

        return recorded(target, options, place, known)
    return _Recording(target, options, place).captured(known)


class _Recording:
    """One capture while it goes on."""

    def __init__(self, target: Target, options: Options, place: Path) -> None:
        self.target = target
        self.options = options
        self.place = place
        self.cut: list[str] = []

    def captured(self, known: Mapping[str, object]) -> Captured:
        """The watched run; where it recorded nothing, a second one made for it; then one with stacks."""
        watched, ending = self._observe()
        facts, heard, recorded = self._facts(), watched, watched
        if watched.window is None and not facts.own_profiler:
            failing.unless_worth_another_run(self.target, watched, ending, self.options)
        turns = _steps_are_turns(watched, facts)
        if (watched.source is None or turns) and not facts.own_profiler and self.options.step_name is None:
            heard = self._by_functions(watched)
            recorded = heard if heard.window is not None else watched
            before = replace(facts, step_ns=(), step_cpu_ns=()) if turns else facts
            facts = _joined(before, self._facts()) if heard is not watched else facts
        if recorded.window is None and not facts.own_profiler:
            recorded = self._again(heard)
            facts = _joined(facts, self._facts())
            failing.unless_recorded(self.target, recorded)
        stacked = self.options.stacks and facts.jax is None  # the line of JAX's function is known
        step_s = max(facts.profiled_step_ns, default=0) / 1e9
        stacks_file = self._stacks(heard, recorded, step_s) if stacked else None
        facts = replace(facts, cut=(*facts.cut, *self.cut, *_own_profiler(facts, recorded)))
        facts = replace(facts, tensors=taken_tensors(self.place))
        natural = not ending.ended_by_us and not watched.ended_at_step
        return Captured(
            folder=self.place,
            target=self.target,
            trace_file=self._packed("observe"),
            stacks_file=stacks_file,
            facts=facts,
            environment=with_facts(known, facts),
            source=heard.source,
            known_steps=heard.steps if natural and watched.finished else 0,
            script_exit=ending.status if natural else None,
            recorded_steps=recorded.window.steps if recorded.window else 0,
        )

    def _observe(self) -> tuple[Hearing, Ending]:
        now_s, budget = time.monotonic(), self.options.budget
        allowance_s = budget.allowance_s("observe", now_s)
        plan = self._plan(warm_up_s=allowance_s * WARM_UP_SHARE, end_by_ns=int((now_s + allowance_s) * 1e9))
        hearing = Hearing(
            enough_s=now_s + allowance_s,
            end_s=budget.end_s,
            window_after_s=allowance_s / 2,
            silence_s=self.options.timeout_s,
        )
        ending = self._run("watching the script", plan, hearing, Wiring(output_to_stderr=self.options.output_to_stderr))
        if ending.ended_by_us == "silence":
            self.cut.append(f"The script gave no sign of progress for {self.options.timeout_s:g} s and was ended.")
        elif ending.ended_by_us or hearing.ended_at_step:
            self.cut.append(
                f"The script was ended after {time.monotonic() - now_s:.0f} s, its share of the {budget.total_s:g} s "
                f"given (--budget)."
            )
        return hearing, ending

    def _by_functions(self, watched: Hearing) -> Hearing:
        """No module and no optimizer makes steps: find a function of the user's own that does, and record those.

        Returns the run that recorded such steps, or the watched one where there are none.
        """
        begun_s = time.monotonic()
        allowance_s = max(USUAL_S, self.options.budget.left_s(begun_s) / 4) - GRACE_S  # in time to tell what it saw
        plan = self._plan(
            mode="functions", label="functions", visible=False, end_by_ns=int((begun_s + allowance_s) * 1e9)
        )
        found = self._throw_away("looking for steps", plan)
        if found.source is None:
            return watched
        few = 0 < found.steps < FEWEST_TO_WARM_UP
        allowance_s = max(USUAL_S, self.options.budget.allowance_s("observe", time.monotonic()))
        plan = self._plan(
            visible=False,
            source=found.source,
            known_steps=found.steps,
            quick=few,
            warm_up_s=allowance_s * WARM_UP_SHARE,
            end_by_ns=int((time.monotonic() + allowance_s) * 1e9),
        )
        recorded = self._throw_away("recording its steps", plan)
        if recorded.window is None or not recorded.window.steps:
            return watched
        return recorded

    def _again(self, first: Hearing) -> Hearing:
        """The program is over before anything could be recorded: run it once more, recording from the start."""
        quick = first.source is not None and first.steps > 1
        plan = self._plan(
            visible=False,
            window=not quick,
            quick=quick,
            source=first.source if quick else None,
            known_steps=first.steps,
        )
        hearing = self._throw_away("running it again to record it", plan)
        if quick and hearing.window is not None:
            self.cut.append(f"The script makes {first.steps} steps, so it was run a second time to record them.")
        return hearing

    def _stacks(self, first: Hearing, recorded: Hearing, step_s: float) -> Path | None:
        if recorded.window is None or self.options.budget.left_s(time.monotonic()) < LEAST_S:
            return None
        events = recorded.window.events / max(recorded.window.steps, 1)
        if step_s * STEPS_BEFORE_LINES > self._share_s():
            self.cut.append(f"Lines of the script are not named: with steps of {step_s:.1f} s that takes too long.")
            return None
        plan = self._plan(
            mode="stacks",
            label="stacks",
            visible=False,
            window=first.source is None,
            source=first.source,
            known_steps=first.steps if first.finished else 0,
            steps=1 if events > MANY_EVENTS or step_s > LONG_STEP_S else STACKED_STEPS,
        )
        hearing = self._throw_away("finding the lines", plan)
        if hearing.window is None:
            self.cut.append(
                "Lines of the script are not named: the second, short run with stacks did not get that far."
            )
        return self._packed("stacks")

    def _throw_away(self, phase: str, plan: Plan) -> Hearing:
        """A run that nobody sees, with a share of what is left: it ends as soon as it has what it is for."""
        end_s = min(time.monotonic() + self._share_s(), self.options.budget.end_s)
        hearing = Hearing(enough_s=end_s, end_s=end_s, silence_s=self.options.timeout_s)
        if plan.window:
            hearing.window_s = STACKED_WINDOW_S if plan.mode == "stacks" else WINDOW_S
            hearing.window_after_s = hearing.window_s
        log = self.place / f"{plan.label}.log"
        self._run(phase, plan, hearing, Wiring(log=log))
        if hearing.window is not None:  # what torch says of being profiled helps only where nothing was recorded
            log.unlink(missing_ok=True)
        return hearing

    def _share_s(self) -> float:
        now_s, budget = time.monotonic(), self.options.budget
        return max(USUAL_S, budget.allowance_s("stacks", now_s), budget.left_s(now_s) / 4)

    def _plan(self, **changes: object) -> Plan:
        plan = Plan(mode="observe", folder=str(self.place), steps=self.options.steps, step_name=self.options.step_name)
        return replace(plan, **changes)  # type: ignore[arg-type]  # fields of Plan, by name

    def _run(self, phase: str, plan: Plan, hearing: Hearing, wiring: Wiring) -> Ending:
        self.options.progress(phase, self.options.budget.left_s(time.monotonic()))
        with launch.start(self.target, plan, wiring) as child:
            ending = launch.watch(child, hearing)
        if wiring.log is not None and not wiring.log.stat().st_size:
            wiring.log.unlink()
        self.cut += [f"Watching the script failed on our side: {fault}." for fault in hearing.faults]
        return ending

    def _packed(self, label: str) -> Path | None:
        name = "trace" if label == "observe" else label
        for ending in (".json", ".xplane.pb"):
            plain = self.place / f"{label}{ending}"
            if plain.exists():
                return packing.pack(plain, self.place / f"{name}{ending}.gz")
        return None

    def _facts(self) -> Facts:
        with suppress(FileNotFoundError):
            return msgspec.json.decode((self.place / "facts.json").read_bytes(), type=Facts)
        return Facts()


def _steps_are_turns(watched: Hearing, facts: Facts) -> bool:
    """Whether the steps found are calls of a recurrent cell: the loop around them may be in a function of their own."""
    by_calls = watched.source is not None and watched.source.kind == "module"
    most = max(facts.roots, key=lambda root: root.calls, default=None)
    return by_calls and most is not None and most.name.endswith("Cell")


def _joined(watched: Facts, recorded: Facts) -> Facts:
    """The recorded run's facts, with the step times of the watched one: those were not disturbed."""
    if not watched.step_ns:
        return replace(recorded, cut=(*watched.cut, *recorded.cut))
    return replace(
        recorded,
        step_ns=watched.step_ns,
        step_cpu_ns=watched.step_cpu_ns,
        cold_step_ns=watched.cold_step_ns,
        cut=(*watched.cut, *recorded.cut),
    )


def _own_profiler(facts: Facts, recorded: Hearing) -> tuple[str, ...]:
    if not facts.own_profiler:
        return ()
    kept_out = "nothing of ours was recorded" if recorded.window is None else "ours recorded only between its sessions"
    return (f"The script runs a torch profiler of its own, which it keeps: {kept_out}.",)
