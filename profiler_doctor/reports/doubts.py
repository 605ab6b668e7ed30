"""What was checked and does not matter, and what could not be known: the report's small print, said openly."""

from __future__ import annotations

from dataclasses import dataclass

from profiler_doctor.analyzer.model import Diagnosis, RuleOutcome
from profiler_doctor.reports import ranking, wording
from profiler_doctor.reports.story import Fact

NOISY = "MSR007"
"""The note that the steps scatter."""


@dataclass(frozen=True)
class Settled:
    """A rule that looked and saw too little to matter."""

    code: str
    name: str
    text: str


def small(diagnosis: Diagnosis) -> tuple[Settled, ...]:
    """What was checked, seen, and does not matter."""
    seen = [outcome for outcome in diagnosis.outcomes if outcome.status == "clean" and outcome.findings]
    return tuple(Settled(outcome.code, outcome.name, _small(outcome, ranking.whole(diagnosis))) for outcome in seen)


def _small(outcome: RuleOutcome, whole: str) -> str:
    shares = [finding.stake.share for finding in outcome.findings if finding.stake.share is not None]
    worth = f"up to {wording.share(max(shares))} of the {whole} (estimate)" if any(shares) else ""
    message = wording.plain(outcome.findings[0].message, 400)
    return f"{worth}: {message}" if worth else message


def checked_clean(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The codes of the rules that looked and saw nothing."""
    quiet = [outcome for outcome in diagnosis.outcomes if outcome.status == "clean" and not outcome.findings]
    return tuple(sorted(outcome.code for outcome in quiet))


def health(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """What qualifies the measurement, each note once."""
    notes = {(note.code, note.message): note for note in diagnosis.health}.values()
    return tuple(Fact(wording.plain(note.code, 40), wording.plain(note.message, 600)) for note in notes)


def beware(diagnosis: Diagnosis) -> str:
    """Points from numbers to the notes that qualify them; empty where there are none."""
    codes = sorted({wording.name(note.code) for note in diagnosis.health if "SUPPRESS" not in note.code})
    if not codes:
        return ""
    rough = "The steps varied much while these times were taken, so they are rough. " if NOISY in codes else ""
    return f"{rough}Read these times with the notes on the measurement below ({', '.join(codes[:6])})."


def skipped(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """Rules → the reason why they could not be asked. What the user left out by choice is not listed.

    Where a note on the measurement forbids a rule, the note's sentence is not said again: it stands among the notes.
    """
    by_reason: dict[str, list[str]] = {}
    noted = {note.code for note in diagnosis.health}
    for outcome in diagnosis.outcomes:
        if outcome.status == "skipped" and outcome.reason != "not selected":
            first = outcome.reason.partition(": ")[0]
            short = first if any(f"({code})" in first for code in noted) else outcome.reason
            by_reason.setdefault(short or "no reason given", []).append(outcome.code)
    return tuple(Fact(", ".join(sorted(codes)), wording.plain(reason, 600)) for reason, codes in by_reason.items())


def crashed(diagnosis: Diagnosis) -> tuple[Fact, ...]:
    """The rules that broke: our bugs, named."""
    broken = [outcome for outcome in diagnosis.outcomes if outcome.status == "crashed"]
    return tuple(Fact(wording.plain(outcome.code, 120), wording.plain(outcome.reason, 400)) for outcome in broken)


def anything_unknown(diagnosis: Diagnosis) -> bool:
    """Whether anything has to be said about the limits of this diagnosis."""
    return bool(health(diagnosis) or skipped(diagnosis) or crashed(diagnosis))
