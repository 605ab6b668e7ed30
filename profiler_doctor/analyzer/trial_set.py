"""One set of a trial: two fresh processes, untreated and treated, that take turns in random order."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.trial_arm import Arm, Broken, NoTime, Over
from profiler_doctor.analyzer.trial_block import Block
from profiler_doctor.analyzer.trial_memory import keeping
from profiler_doctor.analyzer.trial_program import LONG_STEP_S, Pace, Program

T = TypeVar("T")

BLOCK_NS = 50_000_000
"""A block is at least this much work of the faster side: well above what a scheduler hands out at a time."""
LONGEST_BLOCK_NS = 250_000_000
"""... but the slower side need not work longer for it: where the sides differ that much, noise does not matter."""
SETTLE_NS = 15_000_000
"""Work after a wait before time is taken: the first step then takes 3–4 ms longer, and the next ones show it too
(measured: blocks that followed the other side's were 5–20 % longer than those that followed the same side's). Steps as
long as a block are not made twice for it: there it is a few percent, and the same on both sides."""
WARM_TURNS = 6
WARM_UP_S = 6.0
STEADY = 0.1
"""Two turns alike within 10 % are steady."""
BLOCKS_PER_RUN = 5
"""A script that ends early should give this many blocks each time it is started."""
FRUITLESS_RUNS = 2
"""Starts without a single pair after which a script is too short for a trial."""


class BaselineBroken(Exception):
    """The untreated program cannot be timed, or fails by itself: nothing can be said about the fix."""


@dataclass(frozen=True)
class Pair:
    """One block of each side, made one after the other over the same steps of the script."""

    baseline: Block
    treated: Block
    treated_first: bool


class PairSet:
    """Two processes taking turns. Leaving its `with` block ends both."""

    def __init__(self, program: Program, label: str, fixes: tuple[Fix, ...], compare: bool) -> None:
        kept = keeping(program.environment, *(fix.environment(program.machine) for fix in fixes))
        program = replace(program, environment={**kept, **program.environment})
        self.baseline = Arm(program, f"{label}-untreated", ())
        self.treated = Arm(program, f"{label}-treated", fixes)
        self.steps = 1
        """Steps in a block."""
        self.settle = 0
        """Steps before a block that are not timed."""
        self.known_steps = program.known_steps
        self._compare = compare
        self._treated_last: bool | None = None
        self._random = random.Random(label)  # noqa: S311  # an order, not a secret; seeded by the set's own name
        self._open = ExitStack()

    def __enter__(self) -> PairSet:
        for arm in (self.baseline, self.treated):
            self._open.enter_context(arm)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def begin(self, by_ns: int, block_steps: int | None = None) -> None:
        """Start both sides at once, and warm up until their steps are steady and a block's size is known."""
        self._starting(by_ns, lambda: self._warm_up(by_ns, block_steps))

    def pair(self, by_ns: int) -> Pair:
        """The next pair of clean blocks. Where the script ends early, both sides are started again."""
        while time.monotonic_ns() < by_ns:
            try:
                pair = self._turn(by_ns)
            except Over as over:
                self._learn(over)
                self._starting(by_ns, lambda: self._turn(by_ns))  # the first turn after a start is not kept
                continue
            if pair.baseline.clean and pair.treated.clean:
                return pair
        raise NoTime

    def _starting(self, by_ns: int, then: Callable[[], object]) -> None:
        """Start both sides and do something with them; once more where the script turns out to be short."""
        for _ in range(FRUITLESS_RUNS):
            try:
                self._start(by_ns)
                then()
                return
            except Over as over:
                self._learn(over)
        raise BaselineBroken(f"the script's {self.known_steps} steps end before both sides are warm")

    def _start(self, by_ns: int) -> None:
        pace = self._pace(self.known_steps, compare=self._compare and not self.treated.treated)
        for arm in (self.baseline, self.treated):
            arm.start(self.known_steps, pace)
        # the untreated side first: what it takes is the measure of how long the treated one may say nothing
        self.treated.usual_s = _of_baseline(lambda: self.baseline.arrive(by_ns))
        self.treated.arrive(by_ns)
        self.treated.usual_s = _of_baseline(lambda: self.baseline.ready(by_ns))
        self.treated.ready(by_ns)

    def _pace(self, known_steps: int, *, compare: bool) -> Pace:
        return Pace.of(known_steps, compare, self.baseline.program.step_s)

    def _learn(self, over: Over) -> None:
        self.known_steps = over.steps
        if over.steps < self._pace(over.steps, compare=True).ready_after + 2:
            raise BaselineBroken(f"the script makes only {over.steps} steps, too few to take turns") from over
        self._size(self.steps, self.settle)

    def _size(self, steps: int, settle: int) -> None:
        """Give blocks this size, or the largest that leaves a short script several of them before it ends."""
        if self.known_steps:
            usable = self.known_steps - self._pace(self.known_steps, compare=False).ready_after - 1
            most = max(1, usable // BLOCKS_PER_RUN)
            settle = min(settle, most // 4)
            steps = max(1, min(steps, most - settle))
        self.steps, self.settle = steps, settle

    def _warm_up(self, by_ns: int, block_steps: int | None) -> None:
        end_ns = time.monotonic_ns() + WARM_UP_S * 1e9
        self._size(block_steps or self.steps, self.settle)
        before: tuple[float, float] | None = None
        for _ in range(WARM_TURNS):
            made, pair = self.steps, self._turn(by_ns)
            now = pair.baseline.wall_ns / made, pair.treated.wall_ns / made
            self._size(block_steps or block_size(*now), settling(*now))
            fits = 0.7 <= self.steps / made <= 1.5
            if fits and block_steps is None:
                self.steps = made  # it need not follow every flutter
            steady = before is not None and fits and _alike(before, now)
            if steady or max(now) >= LONG_STEP_S * 1e9 or time.monotonic_ns() > end_ns or self._steps_are_dear():
                return
            before = now

    def _steps_are_dear(self) -> bool:
        """Whether a short script has spent a third of its steps on warming up."""
        return 0 < self.known_steps < 3 * (self.baseline.steps + self.steps + self.settle)

    def _turn(self, by_ns: int) -> Pair:
        def of_baseline() -> Block:
            return self.baseline.run(self.steps, self.settle, by_ns)

        def of_treated() -> Block:
            return self.treated.run(self.steps, self.settle, by_ns)

        treated_first = self._random.random() < 0.5
        self._chill(treated_first, by_ns)
        if treated_first:
            treated = self._of_treated(of_treated, of_baseline)
            return Pair(_of_baseline(of_baseline), treated, treated_first=True)
        baseline = _of_baseline(of_baseline)
        return Pair(baseline, of_treated(), treated_first=False)

    def _chill(self, treated_next: bool, by_ns: int) -> None:
        """Have the other side make a few steps where the next one made the last block: every block follows a wait."""
        repeated, self._treated_last = treated_next is self._treated_last, not treated_next
        if not repeated or not self.settle:
            return
        if treated_next:
            _of_baseline(lambda: self.baseline.run(self.settle, 0, by_ns))
        else:
            self.treated.run(self.settle, 0, by_ns)

    @staticmethod
    def _of_treated(then: Callable[[], T], alike: Callable[[], object]) -> T:
        """Where the treated side fails, see whether the untreated one fails at the same place by itself."""
        try:
            return then()
        except Broken:
            with contextlib.suppress(NoTime, Over):
                _of_baseline(alike)
            raise


def _of_baseline(then: Callable[[], T]) -> T:
    try:
        return then()
    except Broken as error:
        raise BaselineBroken(f"the untreated program failed: {error}") from error


def block_size(one_ns: float, other_ns: float) -> int:
    """Steps in a block, from the step times of both sides."""
    fast, slow = sorted((max(one_ns, 1.0), max(other_ns, 1.0)))
    most = max(math.ceil(BLOCK_NS / slow), math.floor(LONGEST_BLOCK_NS / slow), 1)
    return max(1, min(math.ceil(BLOCK_NS / fast), most))


def settling(one_ns: float, other_ns: float) -> int:
    """Steps to make after a wait before time is taken, from the step times of both sides."""
    fast = max(min(one_ns, other_ns), 1.0)
    return math.ceil(SETTLE_NS / fast) if fast < BLOCK_NS else 0


def _alike(before: tuple[float, float], now: tuple[float, float]) -> bool:
    return all(abs(math.log(a / b)) < STEADY for a, b in zip(before, now, strict=True))
