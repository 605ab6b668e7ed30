"""One set of a trial: two fresh processes, untreated and treated, that take turns in random order."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.trial_arm import Arm, Block, Broken, NoTime, Over, Pace, Program

T = TypeVar("T")

BLOCK_NS = 50_000_000
"""A block is at least this much work of the faster side: well above what a scheduler hands out at a time."""
LONGEST_BLOCK_NS = 250_000_000
"""... but the slower side need not work longer for it: where the sides differ that much, noise does not matter."""
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
        self.baseline = Arm(program, f"{label}-untreated", (), compare=False)
        self.treated = Arm(program, f"{label}-treated", fixes, compare)
        self.steps = 1
        """Steps in a block."""
        self.known_steps = program.known_steps
        self._compare = compare
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
        found: list[Pair] = []

        def turn() -> None:
            found.append(self._turn(by_ns))

        while not found or not (found[-1].baseline.clean and found[-1].treated.clean):
            if time.monotonic_ns() > by_ns:
                raise NoTime
            try:
                turn()
            except Over as over:
                self._learn(over)
                self._starting(by_ns, turn)
        return found[-1]

    def _starting(self, by_ns: int, then: Callable[[], None]) -> None:
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
        pace = Pace.of(self.known_steps, self._compare and not self.treated.treated)
        for arm in (self.baseline, self.treated):
            arm.start(self.known_steps, pace)
        self._of_treated(lambda: self.treated.ready(by_ns), lambda: self.baseline.ready(by_ns))
        _of_baseline(lambda: self.baseline.ready(by_ns))

    def _learn(self, over: Over) -> None:
        self.known_steps = over.steps
        if over.steps < Pace.of(over.steps, compare=True).ready_after + 2:
            raise BaselineBroken(f"the script makes only {over.steps} steps, too few to take turns") from over
        self.steps = min(self.steps, self._most_steps())

    def _most_steps(self) -> int:
        """Steps of a block at most, for a script to give several before it ends."""
        if not self.known_steps:
            return 1_000_000
        usable = self.known_steps - Pace.of(self.known_steps, compare=False).ready_after - 1
        return max(1, usable // BLOCKS_PER_RUN)

    def _warm_up(self, by_ns: int, block_steps: int | None) -> None:
        end_ns = time.monotonic_ns() + WARM_UP_S * 1e9
        self.steps = min(block_steps or self.steps, self._most_steps())
        before: tuple[float, float] | None = None
        for _ in range(WARM_TURNS):
            pair = self._turn(by_ns)
            now = pair.baseline.wall_ns / self.steps, pair.treated.wall_ns / self.steps
            wanted = block_steps or block_size(*now)
            fits = 0.7 <= min(wanted, self._most_steps()) / self.steps <= 1.5
            if (before and fits and _alike(before, now)) or time.monotonic_ns() > end_ns:
                return
            before = now
            if not fits:
                self.steps = min(wanted, self._most_steps())

    def _turn(self, by_ns: int) -> Pair:
        def of_baseline() -> Block:
            return self.baseline.run(self.steps, by_ns)

        def of_treated() -> Block:
            return self.treated.run(self.steps, by_ns)

        if self._random.random() < 0.5:
            treated = self._of_treated(of_treated, of_baseline)
            return Pair(_of_baseline(of_baseline), treated, treated_first=True)
        baseline = _of_baseline(of_baseline)
        return Pair(baseline, of_treated(), treated_first=False)

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


def _alike(before: tuple[float, float], now: tuple[float, float]) -> bool:
    return all(abs(math.log(a / b)) < STEADY for a, b in zip(before, now, strict=True))
