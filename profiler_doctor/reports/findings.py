"""What is said of one finding and of its cures, in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from profiler_doctor.analyzer.model import Diagnosis, Finding, Trial
from profiler_doctor.analyzer.timeline import Timeline
from profiler_doctor.reports import wording
from profiler_doctor.reports.ranking import Card
from profiler_doctor.reports.story import Fact

HEADINGS = {
    "verified": "Verified",
    "rejected": "Tried and rejected",
    "inconclusive": "Tried, not decided",
    "not_tried": "Not tried",
}
"""A trial's verdict → the heading it stands under."""
CURES = 3
"""Cures named on a card: a dozen in one sentence are not read."""
_MEMORY_MATTERS = 0.05
"""A smaller difference in peak memory is not worth a phrase on a line; the page shows it all the same."""
_INTO_THE_TRACE = ("intervals_ns", "events", "rows")
"""Evidence that, as a list, leads into the trace; it means nothing on a page."""


def nothing(diagnosis: Diagnosis) -> str:
    """What stands in the place of findings where there are none: all is well, or nobody could look."""
    asked = sum(outcome.status in ("clean", "found") for outcome in diagnosis.outcomes)
    if not asked:
        return "No rule could be asked, so nothing was found and nothing is cleared."
    return f"Nothing found that is worth a change ({wording.plural(asked, 'rule')} asked)."


def claim(card: Card) -> str:
    """What a card is worth: a verified gain, or an estimate that says "up to", never both in one."""
    if card.verified and card.verified.speedup:
        return wording.saving(card.verified.speedup, card.whole)
    return wording.estimate(card.finding.stake, card.whole)


def place(finding: Finding) -> str:
    """Where in the program: file and line, module, op, as far as they are known."""
    where = finding.where
    line = f":{where.line}" if where.line is not None else ""
    parts = (f"{where.file}{line}" if where.file else "", where.module or "", where.op or "")
    return " · ".join(wording.plain(part, 160) for part in parts if part)


def cures(names: Sequence[str], code: str = "") -> str:
    """The names of cures: all of a few, of many the first three and where the others are named (`code`: the rule)."""
    if len(names) <= CURES + 1:
        return wording.plain(", ".join(names), 400)
    rest = f"{len(names) - CURES} more"
    where = f" (`profiler-doctor explain {wording.name(code)}` names them)" if code else ""
    return wording.plain(f"{', '.join(names[:CURES])} and {rest}{where}", 600)


def what_to_do(card: Card) -> str:
    """Where the cure is told of an illness that no fix of ours answers; empty where one does."""
    if card.trials or card.finding.cures:
        return ""
    return f"What to do: `profiler-doctor explain {wording.name(card.code)}`"


def evidence(finding: Finding, most: int = 24) -> tuple[Fact, ...]:
    """The numbers that decided, with their units in words."""
    shown = [(key, raw) for key, raw in finding.evidence.items() if not _leads_into_the_trace(key, raw)]
    return tuple(Fact(wording.label(key), wording.value(key, raw)) for key, raw in shown[:most])


def stretch(finding: Finding, timeline: Timeline | None) -> tuple[float, float] | None:
    """Where in the timeline the finding can be seen, in milliseconds from its start: the first place in it."""
    if timeline is None:
        return None
    for start, end in _intervals(finding):
        if start < timeline.end_ns and end > timeline.start_ns:
            return (start - timeline.start_ns) / 1e6, (end - timeline.start_ns) / 1e6
    return None


def opening(card: Card, diagnosis: Diagnosis) -> str:
    """The command that shows the finding's place in the whole trace; empty where there is no place or no folder."""
    words = diagnosis.command
    out = words[words.index("--out") + 1 :][:1] if "--out" in words else ()
    folder = out[0] if out else diagnosis.capture.folder if diagnosis.capture else ""
    if not folder or not _intervals(card.finding):
        return ""
    return wording.plain(shlex.join(["profiler-doctor", "open", folder, "--at", card.code]), 1000)


def _intervals(finding: Finding) -> list[tuple[int, int]]:
    listed = finding.evidence.get("intervals_ns")
    return [(int(start), int(end)) for start, end in listed] if isinstance(listed, list | tuple) else []


def joint(trial: Trial) -> str:
    """What came of all verified cures together, in a sentence."""
    outcome = "" if trial.verdict == "verified" else f"{HEADINGS[trial.verdict].lower()}; "
    return f"All verified cures together ({wording.plain(trial.fix)}): {outcome}{'; '.join(trial_notes(trial))}."


def at_a_glance(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The first few facts that are a number or a word; lists and tables are for those who look closer."""
    return tuple(fact for fact in facts if len(fact.text) <= 24)[:5]


def _leads_into_the_trace(key: str, raw: object) -> bool:
    return key in _INTO_THE_TRACE and isinstance(raw, list | tuple)


def trial_notes(trial: Trial) -> tuple[str, ...]:
    """What is known of one trial, a phrase each: speed, outputs, price, memory, noise, notes, reason, doubts."""
    notes = [wording.speed(trial), wording.outputs(trial), wording.price(trial)]
    notes += [f"peak memory {wording.memory(trial)}" if _memory_differs(trial) else "", wording.noise(trial)]
    notes += [wording.plain(note, 200) for note in trial.notes]
    notes += [wording.plain(trial.reason, 600), *(_phrase(doubt) for doubt in trial.doubts)]
    return tuple(note for note in notes if note)


def _phrase(sentence: str) -> str:
    """A sentence as part of a longer one."""
    text = wording.plain(sentence, 300).rstrip(".")
    return text[:1].lower() + text[1:]


def _memory_differs(trial: Trial) -> bool:
    before, after = trial.before_peak_bytes or 0, trial.after_peak_bytes or 0
    return abs(after - before) > _MEMORY_MATTERS * max(before, 1)
