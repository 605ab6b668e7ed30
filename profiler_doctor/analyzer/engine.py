"""Ask every rule about a trace: the measurement first, then the program; what time is at stake is worked out here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler_doctor.analyzer.hidden import Hidden, counted, hidden_notes, unused_comments, unused_words
from profiler_doctor.analyzer.kinds import Edit, Has, Rule, Sighting
from profiler_doctor.analyzer.model import HIDDEN_BELOW_SHARE, Finding, HealthNote, RuleOutcome, Stake
from profiler_doctor.analyzer.plugins import Broken, Found
from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.replay.score import score_of
from profiler_doctor.analyzer.suppressions import EVERYTHING, family_of, hiding, names
from profiler_doctor.analyzer.trace import Trace, forget

EVERY_INTERVAL = 200
"""A finding carries at most this many places to look at; more would swell the document and show no more."""
NOT_SELECTED = "not selected"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rules to ask, and by which limits. Words are codes (SYN001), families (SYN) or names (scalar-read)."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Code, family or name → threshold name → value, where the user has set one."""
    folders: tuple[Path, ...] = ()
    """Where the source files that findings name are looked for, to see the comments in them; (): nowhere."""

    def asks(self, rule: Rule) -> bool:
        """Whether this rule is asked at all. Health rules always are: nothing may be believed without them."""
        return rule.health or not self.select or names(rule, self.select)

    def ignores(self, rule: Rule) -> bool:
        """Whether its findings are only counted."""
        return not rule.health and names(rule, self.ignore)

    def limits_of(self, rule: Rule) -> dict[str, float]:
        """The thresholds in force for one rule."""
        found = {name: threshold.value for name, threshold in rule.thresholds.items()}
        for word in (EVERYTHING, family_of(rule.code), rule.name, rule.code):  # what is meant more closely comes last
            found |= {name: value for name, value in self.limits.get(word, {}).items() if name in rule.thresholds}
        return found


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What the rules said of one trace."""

    outcomes: tuple[RuleOutcome, ...]
    health: tuple[HealthNote, ...]
    joint: Stake


@dataclass(frozen=True)
class _Told:
    """One rule's answer with the edits behind its findings, before the joint replay."""

    outcome: RuleOutcome
    sightings: tuple[Sighting, ...] = ()
    edits: tuple[Edit, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    broke: bool = False


UNTOLD = "SUPPRESSIONS-UNTOLD"


def examine(trace: Trace, rules: Found[Rule], selection: Selection | None = None) -> Examination:
    """Every rule's outcome, the health notes, and the joint stake of all findings that matter (one replay, no sum).

    A health rule that fires becomes a note, is no outcome, and what it vetoes is skipped with its sentence as reason.
    """
    selection = selection or Selection()
    if trace.facts is not None and trace.facts.source_folder and selection.folders:
        selection = replace(selection, folders=(*selection.folders, Path(trace.facts.source_folder)))
    in_order = sorted(rules.items, key=lambda rule: rule.code)
    health = [(rule, _ask(rule, trace, selection, {})) for rule in in_order if rule.health]
    fired = [(rule, told) for rule, told in health if told.sightings]
    grave = [(rule, told) for rule, told in fired if any(sighting.grave for sighting in told.sightings)]
    vetoes = {veto: told.outcome for rule, told in grave for veto in rule.vetoes}
    asked = [_ask(rule, trace, selection, vetoes) for rule in in_order if not rule.health]
    quiet = [told.outcome for _, told in health if not told.sightings]
    edits = [edit for told in asked for edit in told.edits]
    known = list(zip((rule for rule in in_order if not rule.health), asked, strict=True))
    joint = stake_of(trace, edits) if edits else Stake(ns_per_step=0, share=0.0, basis="no finding has an estimate")
    forget(trace, score_of)  # as large as all calls and kernels, and nothing is played again after this
    return Examination(
        outcomes=(*(told.outcome for told in asked), *quiet, *(_broken(file) for file in rules.broken)),
        health=(
            *trace.health,
            *(note for _, told in fired for note in _notes(told)),
            *_told_anyway(_suppressions(trace, selection, known)),
        ),
        joint=joint,
    )


def _ask(rule: Rule, trace: Trace, selection: Selection, vetoes: Mapping[str, RuleOutcome]) -> _Told:
    skipped = _reason_to_skip(rule, trace.has, selection, vetoes)
    if skipped:
        return _Told(RuleOutcome(code=rule.code, name=rule.name, status="skipped", reason=skipped))
    try:
        sightings = tuple(rule.find(trace, selection.limits_of(rule)))
        findings = () if rule.health else tuple(_finding(trace, sighting) for sighting in sightings)
    except Exception as error:  # one rule's bug must not cost the user the other rules' answers
        reason = f"{type(error).__name__}: {error}"
        broken = RuleOutcome(code=rule.code, name=rule.name, status="crashed", reason=reason)
        return _Told(_unselected(rule) if selection.ignores(rule) else broken, broke=True)
    if selection.ignores(rule):
        hidden = tuple(Hidden(rule, finding, None) for finding in findings if matters(finding))
        return _Told(_unselected(rule), sightings, hidden=hidden)
    return _told(rule, sightings, findings, selection.folders)


def _told(rule: Rule, sightings: tuple[Sighting, ...], findings: tuple[Finding, ...], folders: Sequence[Path]) -> _Told:
    if rule.health:
        status = RuleOutcome(code=rule.code, name=rule.name, status="found" if sightings else "clean")
        return _Told(replace(status, reason=" ".join(sighting.message for sighting in sightings)), sightings)
    comments = [hiding(rule, finding.where, folders) for finding in findings]
    hidden = tuple(Hidden(rule, *pair) for pair in zip(findings, comments, strict=True) if pair[1])
    shown = tuple(finding for finding, comment in zip(findings, comments, strict=True) if not comment)
    edits = tuple(
        sighting.edit
        for sighting, finding, comment in zip(sightings, findings, comments, strict=True)
        if sighting.edit and not comment and matters(finding) and finding.stake.share is not None
    )
    by_stake = tuple(sorted(shown, key=lambda finding: -(finding.stake.share or 0.0)))
    found = any(matters(finding) for finding in shown)
    reason = f"seen, but under {HIDDEN_BELOW_SHARE:.0%} of the step" if shown and not found else ""
    reason = reason or (f"{counted(len(hidden))} suppressed" if hidden and not found else "")
    status = RuleOutcome(code=rule.code, name=rule.name, status="found" if found else "clean", reason=reason)
    return _Told(replace(status, findings=by_stake), sightings, edits, hidden)


def _told_anyway(notes: Iterator[HealthNote]) -> Iterator[HealthNote]:
    """The notes until one breaks: a fault in them must not cost the user the rules' answers."""
    try:
        yield from notes
    except Exception as error:
        message = f"What is suppressed could not be told: {type(error).__name__}: {error}"
        yield HealthNote(code=UNTOLD, message=message)


def _suppressions(trace: Trace, selection: Selection, known: Sequence[tuple[Rule, _Told]]) -> Iterator[HealthNote]:
    """What was hidden at the user's wish, and wishes that hide nothing any more."""
    hidden = [one for _, told in known for one in told.hidden]
    yield from hidden_notes(hidden)
    ran = [rule for rule, told in known if told.outcome.status in ("clean", "found")]
    yield from unused_comments(trace, selection.folders, ran, hidden)
    ignored = [(rule, told) for rule, told in known if selection.ignores(rule) and selection.asks(rule)]
    silent = [
        rule.code
        for rule, told in ignored
        if not (told.sightings or told.broke or _reason_to_skip(rule, trace.has, selection, {}))
    ]
    yield from unused_words(selection.ignore, [rule for rule, _ in ignored], silent)


def _unselected(rule: Rule) -> RuleOutcome:
    return RuleOutcome(code=rule.code, name=rule.name, status="skipped", reason=NOT_SELECTED)


def matters(finding: Finding) -> bool:
    """Whether a finding is worth a reader's time: at least 1 % of the step at stake, or only a trial can tell."""
    return finding.stake.share is None or finding.stake.share >= HIDDEN_BELOW_SHARE


def _reason_to_skip(
    rule: Rule, has: frozenset[Has], selection: Selection, vetoes: Mapping[str, RuleOutcome]
) -> str | None:
    if not selection.asks(rule):
        return NOT_SELECTED
    missing = [need for need in rule.needs if need not in has]
    if missing:
        return "the trace has no " + " and no ".join(missing)
    veto = vetoes.get(rule.code) or vetoes.get(family_of(rule.code))
    return f"not to be believed here ({veto.code}): {veto.reason}" if veto else None


def _finding(trace: Trace, sighting: Sighting) -> Finding:
    stake = stake_of(trace, [sighting.edit]) if sighting.edit else Stake()
    if sighting.edit and sighting.basis:
        stake = replace(stake, basis=f"{stake.basis}; {sighting.basis}")
    evidence = dict(sighting.evidence)
    if sighting.intervals_ns:
        evidence["intervals_ns"] = [list(interval) for interval in sighting.intervals_ns[:EVERY_INTERVAL]]
    return Finding(message=sighting.message, stake=stake, where=sighting.where, evidence=evidence)


def _notes(told: _Told) -> Iterable[HealthNote]:
    for sighting in told.sightings:
        events = sighting.evidence.get("events", 0)
        count = events if isinstance(events, int) else 0
        yield HealthNote(code=told.outcome.code, message=sighting.message, events=count)


def _broken(file: Broken) -> RuleOutcome:
    return RuleOutcome(code=file.module, name=file.module.rpartition(".")[2], status="crashed", reason=file.error)
