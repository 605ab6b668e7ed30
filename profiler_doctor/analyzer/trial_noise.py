"""What this machine shows where nothing was changed: the placebo, in the same design as every trial, once a run.

It is measured as soon as a first fix looks like a gain, because only gains need to be told from noise.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler_doctor.analyzer import plugins, statistics
from profiler_doctor.analyzer.kinds import Fix, Unsuitable
from profiler_doctor.analyzer.model import Clock
from profiler_doctor.analyzer.trial_arm import Broken, NoTime
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.trial_set import BaselineBroken, Pair, PairSet
from profiler_doctor.analyzer.trial_verdict import ratios_of

PLACEBO = "do-nothing"
PAIRS = min(statistics.LOOKS)
"""In each of the placebo's sets: what the first look of a trial has."""
LEAST_S = 5.0
"""With less time than this the placebo is not begun."""
ONE_SET = 1.5
"""It may have this many times as long as a set of the trial that asks for it, so that one of its own sets fits."""


@dataclass(frozen=True)
class Noise:
    """Medians of the placebo's sets as log ratios, by clock."""

    medians: Mapping[Clock, tuple[float, ...]]

    def worst(self, clock: Clock) -> float | None:
        """The largest difference that any set showed (0.02: 2 %); None: not measured."""
        return max((math.expm1(abs(median)) for median in self.medians.get(clock, ())), default=None)


def noise_in(sets: Sequence[Sequence[Pair]]) -> Noise | None:
    """The noise that sets of the placebo show; None where no set has enough pairs."""
    clocks: tuple[Clock, Clock] = ("cpu", "wall")
    whole = [pairs for pairs in sets if len(pairs) >= statistics.LEAST_PAIRS]
    if not whole:
        return None
    return Noise({clock: tuple(statistics.median(ratios_of(pairs, clock)) for pairs in whole) for clock in clocks})


class Placebo:
    """The noise of one run, measured when it is first asked for."""

    def __init__(self, program: Program, deadline_ns: int) -> None:
        self._program = program
        self._deadline_ns = deadline_ns
        self._known: Noise | None = None
        self.asked = False
        self.rivals = 0
        """How many trials are still to come: the time that is left is shared with them."""

    def learn(self, sets: Sequence[Sequence[Pair]]) -> None:
        """Take it from a trial of the placebo that was made anyway."""
        self._known, self.asked = noise_in(sets) or self._known, True

    def noise(self, block_steps: int | None, set_s: float) -> Noise | None:
        """What doing nothing shows here; None where there was no time, or the program does not allow it.

        `block_steps` and `set_s`: steps in a block of the trial that asks, and how long one of its sets took.
        """
        if not self.asked:
            self.learn(self._measured(block_steps, set_s))
        return self._known

    def _measured(self, block_steps: int | None, set_s: float) -> Sequence[Sequence[Pair]]:
        known = {fix.name: fix for fix in plugins.find("profiler_doctor.fixes", Fix).items}
        sets: list[list[Pair]] = []
        left_s = (self._deadline_ns - time.monotonic_ns()) / 1e9
        if left_s < LEAST_S:
            return sets
        given_s = max(left_s / (1 + self.rivals), ONE_SET * set_s)
        end_ns = time.monotonic_ns() + int(min(left_s, given_s) * 1e9)
        with contextlib.suppress(NoTime, Broken, BaselineBroken, Unsuitable):
            for number in range(statistics.SETS):
                label = f"placebo-{number + 1}"
                with PairSet(self._program, label, (known[PLACEBO],), compare=False) as pairs:
                    pairs.begin(end_ns, block_steps)
                    sets.append([])
                    while len(sets[-1]) < PAIRS:
                        sets[-1].append(pairs.pair(end_ns))
        return sets
