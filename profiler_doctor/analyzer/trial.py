"""Try fixes on the user's own program, untreated and treated side by side, and say which of them are true.

The only loop in the program: from a fix back to running processes. Cheapest first; what is left of the budget is shared
among what is left to try; at the end all verified fixes are tried together, for the joint gain.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.files import write_whole
from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix, Unsuitable
from profiler_doctor.analyzer.model import Clock, Trial
from profiler_doctor.analyzer.trial_arm import Broken, NoTime
from profiler_doctor.analyzer.trial_block import Treated
from profiler_doctor.analyzer.trial_noise import PLACEBO, Placebo
from profiler_doctor.analyzer.trial_program import Program
from profiler_doctor.analyzer.trial_set import BaselineBroken, Pair, PairSet
from profiler_doctor.analyzer.trial_training import Moves
from profiler_doctor.analyzer.trial_verdict import Cure, Evidence, ratios_of, unmade, verdict

LEAST_TRIAL_S = 10.0
"""Three starts of a program that imports torch, and a few blocks: below that a trial need not begin."""
PLANNED_SETS = statistics.SETS + 1
"""A gain that is not large needs one set more than the least."""
COMPILER_SHARE = 2.0
"""A compiler gets twice the share of the budget that another fix gets."""

PLACEBO_SHARE = 0.5
"""Kept for the placebo until it has been measured: three sets without more than the least of pairs."""


@dataclass(frozen=True)
class TrialProgress:
    """Where the trials stand; `pairs` of at most `most` in the set at hand."""

    fix: str
    number: int
    of: int
    set_number: int
    pairs: int
    most: int


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """What to try the fixes on, and for how long."""

    program: Program
    deadline_ns: int
    """`time.monotonic_ns()` at which the budget is spent."""
    budget_s: float = 120.0
    """As the user gave it; for the sentence that says it was spent."""
    progress: Callable[[TrialProgress], None] = lambda progress: None  # noqa: ARG005


def trials(request: TrialRequest, fixes: Sequence[Fix]) -> Iterator[Trial]:
    """One trial per fix, cheapest first; what time they leave goes to those that it may still decide. Then one of all
    verified fixes together where there are several.

    Logs, samples and caches go to the program's folder. Call from the main thread; every process started is ended when
    the iterator is closed or fails.
    """
    cures = [Cure((fix,)) for fix in sorted(fixes, key=lambda fix: (fix.rank, fix.name))]
    placebo = Placebo(request.program, request.deadline_ns)
    verified: dict[Cure, float] = {}
    undecided: list[Trying] = []
    for number, cure in enumerate(cures):
        later = cures[number + 1 :]
        joint = int(len(verified) + len(undecided) + len(later) >= 1)
        placebo.rivals = len(later) + len(undecided) + joint
        trying = Trying(request, cure, placebo, (number + 1, len(cures)))
        trial = trying.trial(_share(cure, later, joint + PLACEBO_SHARE * (not placebo.asked)))
        if trying.undecided:
            undecided.append(trying)
            continue
        if trial.verdict == "verified":
            verified[cure] = trial.speedup or 1.0
        yield trial
    for trial, cure in _gone_on_with(undecided):
        if trial.verdict == "verified":
            verified[cure] = trial.speedup or 1.0
        yield trial
    together = _no_alternatives(verified)
    if len(together) > 1:
        yield Trying(request, Cure(together), placebo, (len(cures) + 1, len(cures) + 1)).trial(1.0)


def _gone_on_with(undecided: Sequence[Trying]) -> Iterator[tuple[Trial, Cure]]:
    """More sets for what was not decided, the most promising first, each with its part of the time that is left."""
    left = sorted(undecided, key=lambda trying: -trying.promise)
    for number, trying in enumerate(left):
        yield trying.trial(1.0 / (len(left) - number)), trying.cure


def _no_alternatives(verified: Mapping[Cure, float]) -> tuple[Fix, ...]:
    """Of fixes that exclude each other, or cure the very same illnesses, the best one."""
    best: dict[object, Cure] = {}
    for cure, speedup in verified.items():
        kind = _kind(cure)
        if kind not in best or speedup > verified[best[kind]]:
            best[kind] = cure
    return tuple(cure.fixes[0] for cure in verified if best[_kind(cure)] == cure)


def _kind(cure: Cure) -> object:
    """Two of a kind cannot be in force together: two numbers of threads, two compilers."""
    return cure.fixes[0].excludes or cure.cures or cure.name


def _share(cure: Cure, later: Sequence[Cure], joint: float) -> float:
    def weight(one: Cure) -> float:
        return COMPILER_SHARE if one.rank >= COMPILER_RANK else 1.0

    return weight(cure) / (weight(cure) + sum(map(weight, later)) + joint)


class Trying:
    """One trial, which may be gone on with while it is undecided."""

    def __init__(self, request: TrialRequest, cure: Cure, placebo: Placebo, place: tuple[int, int]) -> None:
        self.request = request
        self.cure = cure
        self.placebo = placebo
        self.place = place
        cpu_decides = request.program.machine.device in ("cpu", "none") and cure.clock == "cpu"
        self.clocks: tuple[Clock, Clock] = ("cpu", "wall") if cpu_decides else ("wall", "cpu")
        self.sets: list[tuple[Pair, ...]] = []
        self.treated: tuple[Treated, ...] = ()
        self.untreated: tuple[Treated, ...] = ()
        self.moves: list[Moves] = []
        self.undecided = False
        """Whether more time may decide it."""
        self.promise = 0.0
        """The gain as it looks so far, as a log ratio."""
        self._block_steps: int | None = None
        self._end_ns = 0
        self._took_ns = 0
        self._begun_ns = 0
        self._last: Trial | None = None

    def trial(self, share: float) -> Trial:
        """Run it to its verdict in this share of the time that is left; go on with it if it was undecided before."""
        refused = self._refused()
        if refused is not None:
            self.undecided = False
            return self._last or refused
        # what a fix leaves of its share goes to the ones after it; one too small to begin with is made up from theirs
        self._begun_ns = time.monotonic_ns() - self._took_ns
        left_ns = self.request.deadline_ns - time.monotonic_ns()
        end_ns = time.monotonic_ns() + max(int(left_ns * share), int(LEAST_TRIAL_S * 1e9))
        self._end_ns = min(end_ns, self.request.deadline_ns)
        self._last = self._run()
        self._took_ns = time.monotonic_ns() - self._begun_ns
        return self._last

    def _refused(self) -> Trial | None:
        """Why it is not tried at all."""
        why_not = next(filter(None, (fix.applies(self.request.program.machine) for fix in self.cure.fixes)), None)
        if why_not is not None:
            return unmade(self.cure, "not_tried", why_not)
        if self.request.deadline_ns - time.monotonic_ns() < LEAST_TRIAL_S * 1e9:
            budget = f"{self.request.budget_s:g} s"
            said = f"the budget of {budget} was spent; a larger --budget leaves time for it"
            return unmade(self.cure, "not_tried", said)
        return None

    def _run(self) -> Trial:
        cut, self.undecided = "", False
        self._drop_what_was_cut()
        try:
            self._take_turns()
        except Unsuitable as why:
            return unmade(self.cure, "not_tried", str(why))
        except BaselineBroken as error:
            return unmade(self.cure, "inconclusive", str(error))
        except Broken as error:
            return unmade(self.cure, "rejected", f"the treated program failed: {error}")
        except NoTime as error:
            cut = "; ".join(filter(None, ("the time for this trial ran out", str(error))))
        return self._judged(self._evidence(cut))

    def _evidence(self, cut: str) -> Evidence:
        return Evidence(tuple(self.sets), self.treated, cut, self.untreated, tuple(self.moves))

    def _judged(self, evidence: Evidence) -> Trial:
        self._write(evidence)
        if self.cure.name == PLACEBO:
            self.placebo.learn(evidence.sets)
        trial = verdict(self.cure, evidence, self.clocks)
        if trial.verdict == "verified":
            set_s = (time.monotonic_ns() - self._begun_ns) / 1e9 / len(self.sets)
            noise = self.placebo.noise(self._block_steps, set_s)
            return verdict(self.cure, evidence, self.clocks, noise.worst(self.clocks[0]) if noise else None)
        self.promise = math.log(trial.speedup or 1.0)
        few = len(self.sets) < max(statistics.SHARES)
        self.undecided = trial.verdict == "inconclusive" and trial.outputs_equal is not None and few
        return trial

    def _drop_what_was_cut(self) -> None:
        """A set that was not finished is made anew: all sets of a trial have as many pairs as the first."""
        while self.sets and len(self.sets[-1]) < (len(self.sets[0]) if len(self.sets) > 1 else min(statistics.LOOKS)):
            self.sets.pop()

    def _take_turns(self) -> None:
        """Three sets, or more where they disagree; fewer where the answers differ or nothing can be hoped for."""
        for number in itertools.count(len(self.sets)):
            self._tell(number, 0, max(statistics.LOOKS))
            label = f"{self.cure.name.replace(' + ', '+')}-{number + 1}"
            with PairSet(self.request.program, label, self.cure.fixes, compare=number == 0) as pairs:
                pairs.begin(self._end_ns, self._block_steps)
                self._block_steps = pairs.steps
                self.moves.append(Moves(pairs.baseline.moved, pairs.treated.moved))
                if self._answers_decide(pairs, number) or self._one_set(pairs, number) == "end":
                    return

    def _answers_decide(self, pairs: PairSet, number: int) -> bool:
        """Whether the comparison, which the first set makes, alone rules out a verified gain."""
        if number == 0:
            self.treated, self.untreated = pairs.treated.treated, pairs.baseline.treated
        return not self.cure.whole_process and any(one.equal is not True for one in self.treated)

    def _one_set(self, pairs: PairSet, number: int) -> statistics.Move:
        done = [ratios_of(one, self.clocks[0]) for one in self.sets]
        most, now, begun_ns = max(statistics.LOOKS), list[Pair](), time.monotonic_ns()
        try:
            while True:
                now.append(pairs.pair(self._end_ns))
                if now[-1].treated.stale or self._answers_decide(pairs, number):
                    return "end"
                if len(now) == statistics.LEAST_PAIRS and not done:
                    most = self._affordable((time.monotonic_ns() - begun_ns) / len(now), begun_ns - self._begun_ns)
                self._tell(number, len(now), done[0].size if done else most)
                move = statistics.next_move(
                    done, ratios_of(now, self.clocks[0]), most, self._sets_with_time(number + 1)
                )
                if move != "next pair":
                    return move
        finally:
            self.sets.append(tuple(now))

    def _affordable(self, pair_ns: float, starting_ns: int) -> int:
        """Pairs a set may have for the sets to fit into the time given; more time is taken for the first look."""
        now_ns, sets, least, most = time.monotonic_ns(), PLANNED_SETS, min(statistics.LOOKS), max(statistics.LOOKS)
        others_ns = (sets - 1) * starting_ns
        needed_ns = now_ns + others_ns + int(sets * least * pair_ns)
        self._end_ns = min(max(self._end_ns, needed_ns), self.request.deadline_ns)
        affordable = int((self._end_ns - now_ns - others_ns) / (sets * pair_ns))
        return max(statistics.LEAST_PAIRS, min(affordable, most))

    def _sets_with_time(self, begun: int) -> int:
        """Sets there will be, if the ones to come take as long as those so far."""
        now_ns = time.monotonic_ns()
        return begun + int((self._end_ns - now_ns) / ((now_ns - self._begun_ns) / begun))

    def _tell(self, number: int, pairs: int, most: int) -> None:
        self.request.progress(TrialProgress(self.cure.name, *self.place, number + 1, pairs, most))

    def _write(self, evidence: Evidence) -> None:
        """All block times, for whoever wants to judge again."""
        path = self.request.program.folder / f"{self.cure.name.replace(' + ', '+')}.json"
        write_whole(path, json.dumps(asdict(evidence), separators=(",", ":")).encode())
