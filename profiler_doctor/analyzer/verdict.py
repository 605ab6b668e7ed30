"""The sentence that goes first: what was proved, else what may be worth trying, else silence."""

from __future__ import annotations

from collections.abc import Sequence

from profiler_doctor.analyzer.engine import Examination, matters
from profiler_doctor.analyzer.model import Finding, RuleOutcome, Trial, Verdict
from profiler_doctor.analyzer.totals import Totals

HIGH_SHARE = 0.10
MEDIUM_SHARE = 0.03
"""Severity by share of the step: high from 10 %, medium from 3 %, low from 1 % (RULES.md, single count)."""
LEVELS = ("low", "medium", "high")


def verdict(totals: Totals, examination: Examination, trials: Sequence[Trial]) -> Verdict:
    """One sentence, and exit code 0. The best verified trial speaks first; an estimate never poses as a measurement."""
    proved = best_verified(trials)
    if proved is not None:
        return Verdict(sentence=_proved(proved, trials))
    found = [
        finding for outcome in found_outcomes(examination.outcomes) for finding in outcome.findings if matters(finding)
    ]
    if found:
        return Verdict(sentence=_found(found, examination, trials, whole_of(totals)))
    return Verdict(sentence=_nothing(totals, examination))


def verdict_of_trial(trial: Trial, trials: Sequence[Trial]) -> str:
    """What became of one fix, or of several tried together, as a sentence of its own; `trials`: all there were."""
    if trial.verdict == "verified":
        return _proved(trial, trials)
    said = {"rejected": "Rejected", "inconclusive": "Not decided", "not_tried": "Not tried"}[trial.verdict]
    return f"{said}: {trial.fix}: {trial.reason}."


def best_verified(trials: Sequence[Trial]) -> Trial | None:
    """The verified trial with the largest gain, be it of one fix or of all verified ones together."""
    verified = [trial for trial in trials if trial.verdict == "verified" and trial.speedup is not None]
    return max(verified, key=lambda trial: trial.speedup or 0.0, default=None)


def found_outcomes(outcomes: Sequence[RuleOutcome]) -> list[RuleOutcome]:
    """The rules that found something that matters."""
    return [outcome for outcome in outcomes if outcome.status == "found"]


def level_of(finding: Finding) -> str | None:
    """`high`, `medium` or `low` by the share at stake; None where only a trial can tell or it does not matter."""
    share = finding.stake.share
    if share is None or not matters(finding):
        return None
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"


def _proved(best: Trial, trials: Sequence[Trial]) -> str:
    single = [trial for trial in trials if trial.verdict == "verified" and "+" not in trial.fix]
    others = f" ({len(single)} fixes verified one by one)" if "+" in best.fix else ""
    interval = f", 99 % interval {best.low:.2f} to {best.high:.2f}" if best.low and best.high else ""
    kept = "with equal outputs" if best.outputs_equal else "outputs within tolerance"
    return f"Verified: {best.fix} makes a step {best.speedup:.2f} times as fast{interval}, {kept}{others}."


def whole_of(totals: Totals) -> str:
    """What shares are shares of: steps are never invented."""
    return "step" if totals.steps or totals.step_ns.median is not None else "recorded window"


def _found(found: Sequence[Finding], examination: Examination, trials: Sequence[Trial], whole: str) -> str:
    count = f"{len(found)} finding{'s' if len(found) > 1 else ''}"
    share = examination.joint.share
    worth = f", together worth up to {share:.0%} of the {whole} by estimate" if share and share >= MEDIUM_SHARE else ""
    tried = [trial for trial in trials if trial.verdict in ("rejected", "inconclusive")]
    outcome = (
        f"; {len(tried)} fix{'es' if len(tried) > 1 else ''} tried, none verified"
        if tried
        else "; nothing verified yet"
    )
    return f"{count}{worth}{outcome}."


def _nothing(totals: Totals, examination: Examination) -> str:
    asked = [outcome for outcome in examination.outcomes if outcome.status in ("clean", "found")]
    if not asked or not totals.events:
        return "Nothing could be examined: the recording holds nothing that a rule could judge."
    unseen = any(note.code == "GPU-NOT-RECORDED" for note in examination.health)
    blind = "; no GPU activity was recorded" if unseen else ""
    return f"Nothing found that is worth 1 % of the {whole_of(totals)}{blind}."
