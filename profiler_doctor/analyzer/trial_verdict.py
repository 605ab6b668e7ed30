"""From what a trial measured to what it says about a fix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from profiler_doctor.analyzer import statistics, trial_numbers
from profiler_doctor.analyzer import trial_training as training
from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.analyzer.model import Change, Clock, Trial, TrialVerdict
from profiler_doctor.analyzer.trial_block import Block, Treated
from profiler_doctor.analyzer.trial_set import Pair

TOO_NOISY = 1.0
"""Where only a doubling would have shown, the number says less than the sentence."""


NOISY = 0.05
"""Doing nothing differs by 0.4 to 2 % between processes of a quiet machine and of a loaded one."""


@dataclass(frozen=True)
class Cure:
    """One fix, or several tried together."""

    fixes: tuple[Fix, ...]

    @property
    def name(self) -> str:
        """As it stands in the document."""
        return " + ".join(fix.name for fix in self.fixes)

    @property
    def cures(self) -> tuple[str, ...]:
        """The codes it cures."""
        return tuple(dict.fromkeys(code for fix in self.fixes for code in fix.cures))

    @property
    def snippet(self) -> str:
        """The code to paste."""
        return "".join(f"{fix.snippet.rstrip()}\n" for fix in self.fixes)

    @property
    def clock(self) -> Clock:
        """What decides on a CPU: wall time as soon as one of the fixes changes parallelism."""
        return "wall" if any(fix.clock == "wall" for fix in self.fixes) else self.fixes[0].clock

    @property
    def whole_process(self) -> bool:
        """Whether it needs no module: nothing is put in the place of a call."""
        return all(fix.treat is None for fix in self.fixes)

    @property
    def draws_otherwise(self) -> bool:
        """Whether one of the fixes may have random numbers drawn in another order."""
        return any(fix.draws_otherwise for fix in self.fixes)

    @property
    def rank(self) -> int:
        """That of the dearest of them."""
        return max(fix.rank for fix in self.fixes)


@dataclass(frozen=True)
class Evidence:
    """What one trial measured, however far it came."""

    sets: tuple[tuple[Pair, ...], ...] = ()
    treated: tuple[Treated, ...] = ()
    """One a treated root, from the first set."""
    cut: str = ""
    """Why it ended before it was decided; empty: it was not cut."""
    untreated: tuple[Treated, ...] = ()
    """Likewise of the side without the fix: what differs there from its own copies is the program's own doing."""
    moves: tuple[training.Moves, ...] = ()
    """Of each set, where the program trains: how far the weights came, untreated and treated."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Of all sets."""
        return tuple(pair for one in self.sets for pair in one)

    def ratios(self, clock: Clock) -> list[statistics.Floats]:
        """A set's log ratios on one clock, for the sets that have enough of them."""
        found = [ratios_of(one, clock) for one in self.sets]
        return [ratios for ratios in found if ratios.size >= statistics.LEAST_PAIRS]


def ratios_of(pairs: Sequence[Pair], clock: Clock) -> statistics.Floats:
    """Log ratios of the pairs of one set, on one clock."""
    baseline = [_time(pair.baseline, clock) for pair in pairs]
    return statistics.log_ratios(baseline, [_time(pair.treated, clock) for pair in pairs])


@dataclass(frozen=True)
class Answers:
    """Whether the answers stayed the same, over all roots."""

    equal: bool | None
    error: float | None
    tolerance: float | None
    reasons: tuple[str, ...] = field(default=())

    @staticmethod
    def of(cure: Cure, treated: Sequence[Treated], untreated: Sequence[Treated] = ()) -> Answers:
        """Equal only if every root was compared and found equal; unknown where the program differs from itself."""
        own = [reason for one in untreated if one.equal is False for reason in one.reasons]
        if own and any(one.equal is False for one in treated):
            return Answers(None, None, None, (f"even without the fix {own[0]}",))
        if not treated:
            said = "no module was called" if cure.whole_process else "no call of the model came to be compared"
            return Answers(None, None, None, (said,))
        verdicts = [one.equal for one in treated]
        equal = False if False in verdicts else None if None in verdicts else True
        worst = max(treated, key=lambda one: one.error)
        reasons = tuple(reason for one in treated for reason in one.reasons)
        return Answers(equal, worst.error if math.isfinite(worst.error) else None, worst.tolerance, reasons)


def verdict(cure: Cure, evidence: Evidence, clocks: tuple[Clock, Clock], noise: float | None = None) -> Trial:
    """The trial as it stands in the document. `clocks`: the deciding one first. `noise`: what doing nothing showed at
    most (0.02: 2 %); None: not measured."""
    answers = Answers.of(cure, evidence.treated, evidence.untreated)
    ratios = {clock: evidence.ratios(clock) for clock in clocks}
    changes = tuple(statistics.change(clock, sets) for clock, sets in ratios.items() if sets)
    decision, reason = _decided(cure, evidence, answers, changes)
    if decision == "verified" and noise is not None:
        decision, reason = _beyond(noise, evidence, changes[0])
    deciding = changes[0] if changes else None
    before, after = trial_numbers.untreated, trial_numbers.treated
    cold_s = sum(one.cold_s for one in evidence.treated) if evidence.treated else None
    return Trial(
        fix=cure.name,
        verdict=decision,
        reason=reason,
        speedup=deciding.ratio if deciding else None,
        low=deciding.low if deciding else None,
        high=deciding.high if deciding else None,
        outputs_equal=answers.equal,
        error=answers.error,
        tolerance=answers.tolerance,
        cold_s=cold_s,
        break_even_calls=trial_numbers.break_even(evidence.pairs, cold_s) if decision == "verified" else None,
        clock=deciding.clock if deciding else None,
        changes=changes,
        before_ns=trial_numbers.step_ns(evidence.pairs, before),
        after_ns=trial_numbers.step_ns(evidence.pairs, after),
        before_spread=trial_numbers.spread(evidence.pairs, before),
        after_spread=trial_numbers.spread(evidence.pairs, after),
        before_peak_bytes=trial_numbers.peak_bytes(evidence.sets, before),
        after_peak_bytes=trial_numbers.peak_bytes(evidence.sets, after),
        noise=noise,
        doubts=(*trial_numbers.doubts(evidence.pairs, changes), *_noisy(noise, decision)),
        notes=tuple(dict.fromkeys(note for one in evidence.treated for note in one.notes)),
        cures=cure.cures,
        snippet=cure.snippet,
    )


def unmade(cure: Cure, decision: TrialVerdict, reason: str) -> Trial:
    """A trial without a measurement, and why."""
    return Trial(fix=cure.name, verdict=decision, reason=reason, cures=cure.cures, snippet=cure.snippet)


def _decided(cure: Cure, evidence: Evidence, answers: Answers, changes: tuple[Change, ...]) -> tuple[TrialVerdict, str]:
    if wrong := _wrong(cure, evidence, answers):
        return "rejected", wrong
    if evidence.cut and not evidence.treated and not changes:
        return "inconclusive", f"{evidence.cut}; a larger --budget gives it more"
    if answers.equal is None and not cure.whole_process:
        return "inconclusive", f"the answers could not be compared: {answers.reasons[0]}"
    if not changes:
        return "inconclusive", evidence.cut or "no clock moved"
    return _timed(evidence, changes)


def _wrong(cure: Cure, evidence: Evidence, answers: Answers) -> str:
    """What the treated program does otherwise than the untreated one; empty: nothing that was seen."""
    if answers.equal is False:
        return _differing(answers)
    if any(pair.treated.stale for pair in evidence.pairs):
        return "the weights change while the script runs, and its copy of them would go stale"
    return "" if cure.draws_otherwise else training.otherwise(evidence.moves)


def _timed(evidence: Evidence, changes: tuple[Change, ...]) -> tuple[TrialVerdict, str]:
    deciding, sets = changes[0], evidence.ratios(changes[0].clock)
    other = next((change for change in changes[1:] if statistics.opposed(deciding, change)), None)
    if other is not None:
        return "inconclusive", f"the clocks contradict each other: {_told(deciding)}, but {_told(other)}"
    if deciding.verdict == "faster":
        return "verified", ""
    if deciding.verdict == "slower":
        return "rejected", f"slower: {_told(deciding)}"
    if deciding.verdict == "same" or statistics.hopeless(sets) or statistics.no_gain(sets):
        return "rejected", f"no gain: {_told(deciding)}"
    why = f"; {evidence.cut}" if evidence.cut else ""
    return "inconclusive", f"{_told(deciding)}; {_what_is_missing(deciding, sets)}{why}"


def _what_is_missing(deciding: Change, sets: Sequence[statistics.Floats]) -> str:
    if deciding.low > 1 + statistics.MARGIN:
        return "too few pairs of runs to be sure of it"
    smallest = statistics.detectable(sets)
    if smallest >= TOO_NOISY:
        return "too noisy to show any gain"
    return f"a gain of {smallest:.0%} or more would have shown"


def _beyond(noise: float, evidence: Evidence, deciding: Change) -> tuple[TrialVerdict, str]:
    """Verified only if every set shows more than doing nothing ever did."""
    smallest = min(statistics.median(ratios) for ratios in evidence.ratios(deciding.clock))
    if smallest > math.log1p(noise):
        return "verified", ""
    return "inconclusive", f"{_told(deciding)}, but doing nothing showed up to {noise:.0%} here"


def _noisy(noise: float | None, decision: TrialVerdict) -> tuple[str, ...]:
    if noise is None:
        unknown = "How large a gain shows here where nothing is changed was not measured: no time was left for it."
        return (unknown,) if decision == "verified" else ()
    if noise < NOISY:
        return ()
    return (f"The machine is too noisy to judge small gains: doing nothing showed up to {noise:.0%}.",)


def _differing(answers: Answers) -> str:
    size = "" if answers.error is None else f" (relative error {answers.error:.1e}, allowed {answers.tolerance:.0e})"
    return f"the answers differ: {'; '.join(answers.reasons[:3])}{size}"


def _told(change: Change) -> str:
    name = {"cpu": "CPU time", "wall": "wall time", "gpu": "GPU time"}[change.clock]
    return f"{change.ratio:.2f} times as fast by {name} ({change.low:.2f} to {change.high:.2f})"


def _time(block: Block, clock: Clock) -> int:
    return block.cpu_ns if clock == "cpu" else block.wall_ns
