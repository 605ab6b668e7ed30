"""Two revisions of one program side by side, taking turns as the sides of a trial do: does the newer take longer?

The base is the trial's untreated side and the head its treated one. Here a loss is looked for where a trial looks for
a gain, so the log ratios are turned round before the same statistics judge them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.gate import TimeChange, TimeVerdict
from profiler_doctor.analyzer.model import Clock
from profiler_doctor.analyzer.stored_time import FLOOR_NS
from profiler_doctor.analyzer.trial_arm import Arm, Broken, NoTime
from profiler_doctor.analyzer.trial_block import Block
from profiler_doctor.analyzer.trial_memory import keeping
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.trial_set import BaselineBroken, Pair, PairSet
from profiler_doctor.analyzer.trial_verdict import ratios_of

Floats = statistics.Floats
CLOCKS = {"cpu": "CPU time", "wall": "wall time", "gpu": "GPU time"}
PLANNED_SETS = statistics.SETS + 1
TOO_NOISY = 1.0
OVERLOOKED = 0.05
"""How often a loss of just the tolerance may pass."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Who races whom, and until when."""

    base: Program
    head: Program
    deadline_ns: int
    """`time.monotonic_ns()`"""
    say: Callable[[str], None] = lambda phase: None  # noqa: ARG005

    @property
    def clocks(self) -> tuple[Clock, Clock]:
        """The deciding one first: what the program itself used where it is a CPU's work, else what passed."""
        on_cpu = self.head.machine.device in ("cpu", "none")
        return ("cpu", "wall") if on_cpu else ("wall", "cpu")


class RevisionPair(PairSet):
    """A base process and a head process."""

    def __init__(self, sides: Sides, label: str) -> None:
        super().__init__(sides.head, label, (), compare=False)
        kept = keeping(sides.base.environment, sides.head.environment)
        self.baseline = Arm(_keeping(sides.base, kept), f"{label}-base", ())
        self.treated = Arm(_keeping(sides.head, kept), f"{label}-head", ())


def _keeping(program: Program, kept: Mapping[str, str]) -> Program:
    return replace(program, environment={**kept, **program.environment})


class Race:
    """One race while it goes on."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.sets: list[tuple[Pair, ...]] = []
        self._block_steps: int | None = None
        self._begun_ns = time.monotonic_ns()

    def result(self, tolerance: float) -> TimeChange:
        """Run it, and judge. `tolerance`: share by which a step may take longer."""
        cut = ""
        try:
            self._run()
        except BaselineBroken as error:
            return _undecided(f"the base could not be timed: {error}", tolerance)
        except Broken as error:
            return _undecided(f"the head could not be timed: {error}", tolerance)
        except NoTime:
            cut = "the time of --budget ran out"
        return judged(self.sets, self.sides.clocks, tolerance, cut)

    def _run(self) -> None:
        for number in itertools.count():
            self.sides.say(f"letting both take turns: pair of programs {number + 1}")
            with RevisionPair(self.sides, f"race-{number + 1}") as pairs:
                pairs.begin(self.sides.deadline_ns, self._block_steps)
                self._block_steps = pairs.steps
                if self._one_set(pairs, number) == "end":
                    return

    def _one_set(self, pairs: PairSet, number: int) -> statistics.Move:
        clock = self.sides.clocks[0]
        done = [losses(one, clock) for one in self.sets]
        most, now, begun_ns = max(statistics.LOOKS), list[Pair](), time.monotonic_ns()
        try:
            while True:
                now.append(pairs.pair(self.sides.deadline_ns))
                if len(now) == statistics.LEAST_PAIRS and not done:
                    most = self._affordable((time.monotonic_ns() - begun_ns) / len(now), begun_ns - self._begun_ns)
                move = statistics.next_move(done, losses(now, clock), most, self._sets_with_time(number + 1))
                if move != "next pair":
                    return move
        finally:
            self.sets.append(tuple(now))

    def _affordable(self, pair_ns: float, starting_ns: int) -> int:
        """Pairs a set may have for the sets to fit into the time that is left."""
        left_ns = self.sides.deadline_ns - time.monotonic_ns() - (PLANNED_SETS - 1) * starting_ns
        return max(statistics.LEAST_PAIRS, min(int(left_ns / (PLANNED_SETS * pair_ns)), max(statistics.LOOKS)))

    def _sets_with_time(self, begun: int) -> int:
        """Sets there will be, if the ones to come take as long as those so far."""
        now_ns = time.monotonic_ns()
        return begun + int((self.sides.deadline_ns - now_ns) / ((now_ns - self._begun_ns) / begun))


def losses(pairs: Sequence[Pair], clock: Clock) -> Floats:
    """Log ratios of head over base: above 0 the head takes longer."""
    turned: Floats = -ratios_of(pairs, clock)
    return turned


def judged(sets: Sequence[Sequence[Pair]], clocks: tuple[Clock, Clock], tolerance: float, cut: str = "") -> TimeChange:
    """What the pairs say. A regression is beyond the tolerance, proved by the test, and above the absolute floor."""
    every = {clock: [losses(pairs, clock) for pairs in sets] for clock in clocks}
    ratios = {clock: [one for one in each if one.size >= statistics.LEAST_PAIRS] for clock, each in every.items()}
    deciding = ratios[clocks[0]]
    if not deciding:
        return _undecided(cut or "no pair of turns was made", tolerance)
    found, other = (statistics.change(clock, ratios[clock]) if ratios[clock] else None for clock in clocks)
    assert found is not None
    base = [pair.baseline for pairs in sets for pair in pairs]
    lost_ns = _step_ns(base, clocks[0]) * (found.ratio - 1)
    verdict, why = decided(deciding, tolerance, lost_ns)
    if verdict == "regression" and other is not None and statistics.opposed(found, other):
        verdict, why = "inconclusive", "the clocks contradict each other"
    doubt = (
        f"a step takes {found.ratio:.3f} times as long by {CLOCKS[found.clock]} ({found.low:.3f} to {found.high:.3f})"
    )
    ending = f"; {cut}" if cut and verdict == "inconclusive" else ""
    return TimeChange(
        verdict=verdict,
        reason=f"{doubt}{f'; {why}' if why else ''}{ending}",
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        tolerance=tolerance,
        clock=found.clock,
        before_ns=round(_step_ns(base, "wall")),
        after_ns=round(_step_ns([pair.treated for pairs in sets for pair in pairs], "wall")),
        pairs=found.pairs,
    )


def decided(sets: Sequence[Floats], tolerance: float, lost_ns: float) -> tuple[TimeVerdict, str]:
    """The verdict on log ratios of head over base, and why. `lost_ns`: what a step takes more."""
    found, direction, limit = statistics.interval(sets), statistics.judge(sets), math.log1p(tolerance)
    if direction == "faster":
        if found.estimate <= limit:
            return "pass", f"within the {tolerance:.0%} allowed"
        return ("regression", "") if lost_ns > FLOOR_NS else ("pass", f"under {FLOOR_NS / 1000:.0f} µs a step")
    if direction == "slower":
        return "faster", ""
    if direction == "same" or statistics.hopeless(sets) or _ruled_out(found, limit):
        return "pass", ""
    smallest = statistics.detectable(sets)
    seen = f"a loss of {max(smallest, tolerance):.0%} or more would have shown" if smallest < TOO_NOISY else "too noisy"
    return "inconclusive", seen


def _ruled_out(found: statistics.Interval, limit: float) -> bool:
    """Whether a loss as large as the limit would have shown itself, in all but one of twenty checks.

    A pass need not be as sure as an alarm: the intervals that alarms are judged by would leave most checks undecided.
    """
    spread = (found.high - found.estimate) / NormalDist().inv_cdf(1 - found.alpha / 2)
    return found.estimate + NormalDist().inv_cdf(1 - OVERLOOKED) * spread < limit


def _step_ns(blocks: Sequence[Block], clock: Clock) -> float:
    return median((block.cpu_ns if clock == "cpu" else block.wall_ns) / block.steps for block in blocks)


def _undecided(reason: str, tolerance: float) -> TimeChange:
    return TimeChange(verdict="inconclusive", reason=f"time could not be compared: {reason}", tolerance=tolerance)
