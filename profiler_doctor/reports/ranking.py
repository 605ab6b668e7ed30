"""Which findings matter most, and what became of their cures: verified gains first, then estimates, never mixed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from profiler_doctor.analyzer.model import HIDDEN_BELOW_SHARE, Diagnosis, Finding, RuleOutcome, Trial

FOR_INFERENCE_ONLY = "the script trains"
"""How fixes begin their reason not to be tried on a program that trains: their snippets would end its training."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One illness, with all that is known of its cure. `finding` is the largest sighting, `places` are the others."""

    code: str
    name: str
    finding: Finding
    places: tuple[Finding, ...] = ()
    trials: tuple[Trial, ...] = ()
    verified: Trial | None = None
    """The best verified cure."""
    whole: str = "step"
    """What its shares are of: the step, or the recorded window where no steps were found."""
    alongside: tuple[Card, ...] = ()
    """Illnesses that the same verified cure answers: its gain stands here and is not counted again."""

    @property
    def settled(self) -> bool:
        """Whether every cure was tried and turned down, and no estimate says that anything is left to gain."""
        tried = bool(self.trials) and all(trial.verdict == "rejected" for trial in self.trials)
        return tried and self.finding.stake.share is None

    @property
    def snippets(self) -> tuple[Trial, ...]:
        """Trials whose cure is worth pasting: the verified ones, else those that could not be tried."""
        by_verdict = {verdict: self.trials_that(verdict) for verdict in ("verified", "not_tried")}
        usable = by_verdict["verified"] or by_verdict["not_tried"]
        worth_pasting = (each for each in usable if each.snippet and not each.reason.startswith(FOR_INFERENCE_ONLY))
        return tuple(replace(each, snippet=_for(self.finding, each.snippet)) for each in worth_pasting)

    @property
    def untried(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """What was not tried: names of cures that share a reason, and the reason."""
        return untried(self.trials)

    def trials_that(self, verdict: str) -> tuple[Trial, ...]:
        """Its trials with one verdict."""
        return tuple(trial for trial in self.trials if trial.verdict == verdict)


def untried(trials: Iterable[Trial]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Names of the cures that were not tried, those with one reason together, and the reason."""
    by_reason: dict[str, list[str]] = {}
    for trial in trials:
        if trial.verdict == "not_tried":
            by_reason.setdefault(trial.reason or "no reason given", []).append(trial.fix)
    return tuple((tuple(names), reason) for reason, names in by_reason.items())


def _for(finding: Finding, snippet: str) -> str:
    """The snippet with the optimizer that the program has, where the finding is about one."""
    seen = finding.evidence.get("optimizer")
    return snippet.replace("torch.optim.AdamW", f"torch.optim.{seen}") if str(seen).isidentifier() and seen else snippet


def ranked(diagnosis: Diagnosis) -> tuple[Card, ...]:
    """The cards of everything found, best first: by verified gain, by estimated share, then what only a trial tells.

    An illness whose verified cure already stands on an earlier card is put alongside it: one gain is counted once.
    """
    cards = sorted((_card(outcome, diagnosis) for outcome in _found(diagnosis.outcomes)), key=_rank)
    heads: dict[str, Card] = {}
    for card in cards:
        key = card.verified.fix if card.verified else card.code
        head = heads.get(key)
        heads[key] = card if head is None else replace(head, alongside=(*head.alongside, card))
    return tuple(heads.values())


def open_cards(diagnosis: Diagnosis) -> tuple[Card, ...]:
    """The ranked cards without the settled ones: what the reader can still act on."""
    return tuple(card for card in ranked(diagnosis) if not card.settled)


def whole(diagnosis: Diagnosis) -> str:
    """What shares are of: "step", or "recorded window" where no steps were found."""
    return "step" if diagnosis.totals.steps or diagnosis.totals.step_ns.median is not None else "recorded window"


def joint_trial(diagnosis: Diagnosis) -> Trial | None:
    """The trial of all verified fixes together, which is named `one + other`."""
    together = [trial for trial in diagnosis.trials if "+" in trial.fix]
    return together[-1] if together else None


def codes_by_fix(cards: Iterable[Card]) -> dict[str, tuple[str, ...]]:
    """Fix → the codes of the findings that it was tried for."""
    found: dict[str, tuple[str, ...]] = {}
    for card in (card for head in cards for card in (head, *head.alongside)):
        for trial in card.trials:
            found[trial.fix] = (*found.get(trial.fix, ()), card.code)
    return found


def trials_that(diagnosis: Diagnosis, verdict: str) -> tuple[Trial, ...]:
    """The trials with one verdict, in the order they were made."""
    return tuple(trial for trial in diagnosis.trials if trial.verdict == verdict)


def _found(outcomes: Iterable[RuleOutcome]) -> Iterable[RuleOutcome]:
    return (outcome for outcome in outcomes if outcome.status == "found" and outcome.findings)


def _card(outcome: RuleOutcome, diagnosis: Diagnosis) -> Card:
    first, *rest = sorted(outcome.findings, key=_weight)
    cures = {cure for finding in outcome.findings for cure in finding.cures}
    trials = tuple(
        trial
        for trial in diagnosis.trials
        if "+" not in trial.fix and (outcome.code in trial.cures or trial.fix in cures)
    )
    verified = [trial for trial in trials if trial.verdict == "verified" and trial.speedup]
    best = max(verified, key=lambda trial: trial.speedup or 0.0, default=None)
    worth_a_look = tuple(finding for finding in rest if not _small(finding))
    return Card(
        code=outcome.code,
        name=outcome.name,
        finding=first,
        places=worth_a_look,
        trials=trials,
        verified=best,
        whole=whole(diagnosis),
    )


def _small(finding: Finding) -> bool:
    return finding.stake.share is not None and finding.stake.share < HIDDEN_BELOW_SHARE


def _weight(finding: Finding) -> float:
    """Sorts the largest estimate first, what only a trial can tell next, and last what is too small to matter."""
    share = finding.stake.share
    return -HIDDEN_BELOW_SHARE if share is None else -share


def _rank(card: Card) -> tuple[int, float, float, str]:
    """Verified before estimated before unknown; within each the larger first; the code settles ties."""
    stake = card.finding.stake.share
    if card.verified and card.verified.speedup:
        return (0, -card.verified.speedup, -(stake or 0.0), card.code)
    return (1, -stake, 0.0, card.code) if stake is not None else (2, 0.0, 0.0, card.code)
