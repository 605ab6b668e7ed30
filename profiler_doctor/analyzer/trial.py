"""Try fixes on the user's own program, untreated and treated side by side, and say which of them are true.

The only loop in the program: from a fix back to running processes. Cheapest first; what is left of the budget is shared
among what is left to try; at the end all verified fixes are tried together, for the joint gain.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from profiler_doctor.analyzer import statistics
from profiler_doctor.analyzer.files import write_whole
from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix, Unsuitable
from profiler_doctor.analyzer.model import Clock, Trial
from profiler_doctor.analyzer.trial_arm import Broken, NoTime, Program, Treated
from profiler_doctor.analyzer.trial_set import BaselineBroken, Pair, PairSet
from profiler_doctor.analyzer.trial_verdict import Cure, Evidence, ratios_of, unmade, verdict

LEAST_TRIAL_S = 10.0
"""Three starts of a program that imports torch, and a few blocks: below that a trial need not begin."""
PLANNED_SETS = statistics.SETS + 1
"""A gain that is not large needs one set more than the least."""
COMPILER_SHARE = 2.0
"""A compiler gets twice the share of the budget that another fix gets."""


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
    """One trial per fix, cheapest first, then one of all verified fixes together where there are several.

    Logs, samples and caches go to the program's folder. Call from the main thread; every process started is ended when
    the iterator is closed or fails.
    """
    cures = [Cure((fix,)) for fix in sorted(fixes, key=lambda fix: (fix.rank, fix.name))]
    verified: dict[Cure, float] = {}
    for number, cure in enumerate(cures):
        later = cures[number + 1 :]
        joint = int(len(verified) + len(later) >= 1)
        trial = _tried(request, cure, _share(cure, later, joint), (number + 1, len(cures)))
        if trial.verdict == "verified":
            verified[cure] = trial.speedup or 1.0
        yield trial
    together = _no_alternatives(verified)
    if len(together) > 1:
        yield _tried(request, Cure(together), 1.0, (len(cures) + 1, len(cures) + 1))


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


def _tried(request: TrialRequest, cure: Cure, share: float, place: tuple[int, int]) -> Trial:
    why_not = next(filter(None, (fix.applies(request.program.machine) for fix in cure.fixes)), None)
    if why_not is not None:
        return unmade(cure, "not_tried", why_not)
    now_ns = time.monotonic_ns()
    left_ns = request.deadline_ns - now_ns
    if left_ns < LEAST_TRIAL_S * 1e9:
        said = f"the budget of {request.budget_s:g} s was spent; a larger --budget leaves time for it"
        return unmade(cure, "not_tried", said)
    # what a fix leaves of its share goes to the ones after it; a share too small to begin with is made up from theirs
    end_ns = now_ns + max(int(left_ns * share), int(LEAST_TRIAL_S * 1e9))
    return Trying(request, cure, min(end_ns, request.deadline_ns), place).trial()


def _share(cure: Cure, later: Sequence[Cure], joint: int) -> float:
    def weight(one: Cure) -> float:
        return COMPILER_SHARE if one.rank >= COMPILER_RANK else 1.0

    return weight(cure) / (weight(cure) + sum(map(weight, later)) + joint)


class Trying:
    """One trial while it runs."""

    def __init__(self, request: TrialRequest, cure: Cure, end_ns: int, place: tuple[int, int]) -> None:
        self.request = request
        self.cure = cure
        self.end_ns = end_ns
        self.place = place
        cpu_decides = request.program.machine.device in ("cpu", "none") and cure.clock == "cpu"
        self.clocks: tuple[Clock, Clock] = ("cpu", "wall") if cpu_decides else ("wall", "cpu")
        self.sets: list[tuple[Pair, ...]] = []
        self.treated: tuple[Treated, ...] = ()
        self._block_steps: int | None = None
        self._begun_ns = time.monotonic_ns()

    def trial(self) -> Trial:
        """Run it to its verdict."""
        cut = ""
        try:
            self._take_turns()
        except Unsuitable as why:
            return unmade(self.cure, "not_tried", str(why))
        except BaselineBroken as error:
            return unmade(self.cure, "inconclusive", str(error))
        except Broken as error:
            return unmade(self.cure, "rejected", f"the treated program failed: {error}")
        except NoTime:
            cut = "the time for this trial ran out"
        evidence = Evidence(tuple(self.sets), self.treated, cut)
        self._write(evidence)
        return verdict(self.cure, evidence, self.clocks)

    def _take_turns(self) -> None:
        """Three sets, or more where they disagree; fewer where the answers differ or nothing can be hoped for."""
        for number in itertools.count():
            self._tell(number, 0, max(statistics.LOOKS))
            label = f"{self.cure.name.replace(' + ', '+')}-{number + 1}"
            with PairSet(self.request.program, label, self.cure.fixes, compare=number == 0) as pairs:
                pairs.begin(self.end_ns, self._block_steps)
                self._block_steps = pairs.steps
                if number == 0:
                    self.treated = tuple(pairs.treated.treated)
                    if self._answers_decide():
                        return
                if self._one_set(pairs, number) == "end":
                    return

    def _answers_decide(self) -> bool:
        """Whether the comparison alone rules out a verified gain."""
        return not self.cure.whole_process and any(one.equal is not True for one in self.treated)

    def _one_set(self, pairs: PairSet, number: int) -> statistics.Move:
        done = [ratios_of(one, self.clocks[0]) for one in self.sets]
        most, now, begun_ns = max(statistics.LOOKS), list[Pair](), time.monotonic_ns()
        try:
            while True:
                now.append(pairs.pair(self.end_ns))
                if now[-1].treated.stale:
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
        self.end_ns = min(max(self.end_ns, needed_ns), self.request.deadline_ns)
        affordable = int((self.end_ns - now_ns - others_ns) / (sets * pair_ns))
        return max(statistics.LEAST_PAIRS, min(affordable, most))

    def _sets_with_time(self, begun: int) -> int:
        """Sets there will be, if the ones to come take as long as those so far."""
        now_ns = time.monotonic_ns()
        return begun + int((self.end_ns - now_ns) / ((now_ns - self._begun_ns) / begun))

    def _tell(self, number: int, pairs: int, most: int) -> None:
        self.request.progress(TrialProgress(self.cure.name, *self.place, number + 1, pairs, most))

    def _write(self, evidence: Evidence) -> None:
        """All block times, for whoever wants to judge again."""
        path = self.request.program.folder / f"{self.cure.name.replace(' + ', '+')}.json"
        write_whole(path, json.dumps(asdict(evidence), separators=(",", ":")).encode())
