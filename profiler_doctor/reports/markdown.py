"""The report as Markdown, to paste into a pull request or an issue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis, Trial
from profiler_doctor.reports import doubts, findings, ranking, story, wording
from profiler_doctor.reports.ranking import Card

LIMIT = 64_000
"""Bytes; GitHub takes comments of 65,536 characters."""
CARDS = 20
ROWS = 20
_SPECIAL = re.compile(r"([\\`*_\[\]#|~$])")
_CUT = "\n_Cut here to fit into a comment; the full report has the rest._\n"


def render(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:  # noqa: ARG001  # the kind's signature
    """At most LIMIT bytes of Markdown; sections that do not fit are left out, the last line says so."""
    page = ""
    for section in _sections(diagnosis):
        if len((page + section + _CUT).encode()) > LIMIT:
            return (page + _CUT).encode()
        page += section
    return page.encode()


def _sections(diagnosis: Diagnosis) -> Iterator[str]:
    """Independent pieces, the important ones first."""
    sentence = escaped(diagnosis.verdict.sentence, 1000)
    yield f"## Profiler Doctor: {escaped(story.title(diagnosis), 120)}\n\n**{sentence}**\n"
    yield _list(f"{escaped(fact.label)}: {escaped(fact.text)}" for fact in story.about(diagnosis))
    yield _titled("Step time", _list(escaped(sentence, 600) for sentence in story.step_time(diagnosis)))
    for breakdown in story.breakdowns(diagnosis.totals):
        yield _titled(breakdown.title, _parts(story.folded(breakdown, ROWS)))
    if not story.breakdowns(diagnosis.totals):
        ops = [f"{inline_code(op.label)}: {op.text}" for op in story.top_ops(diagnosis, 8)]
        yield _titled("The ops that took most time", _list(ops))
    yield from _findings(diagnosis)
    yield _trials("Tried and rejected", ranking.trials_that(diagnosis, "rejected"))
    yield _trials("Tried, not decided", ranking.trials_that(diagnosis, "inconclusive"))
    yield _titled(
        "Not tried", _list(_untried(", ".join(names), why) for names, why in ranking.untried(diagnosis.trials))
    )
    yield _titled("Checked, does not matter", _list(_small(rule) for rule in doubts.small(diagnosis)[:ROWS]))
    yield _titled("What could not be known", _list(_doubts(diagnosis)))
    step = story.next_step(diagnosis)
    yield _titled("Next", f"{step.why}:\n\n{_fenced([step.command], 'sh')}")


def _findings(diagnosis: Diagnosis) -> Iterator[str]:
    cards = ranking.open_cards(diagnosis)
    if not cards:
        yield _titled("Findings", f"{findings.nothing(diagnosis)}\n")
        return
    first, *others = cards[:CARDS]
    yield _titled("Findings", _card(1, first))
    yield from (f"\n{_card(number, card)}" for number, card in enumerate(others, start=2))
    joint = ranking.joint_trial(diagnosis)
    if joint is not None:
        yield f"\n{escaped(findings.joint(joint), 1000)}\n"
    if len(cards) > CARDS:
        yield f"\n{len(cards) - CARDS} more findings stand in the full report.\n"


def _card(number: int, card: Card) -> str:
    lines = [f"{number}. **{escaped(card.name, 80)}** ({escaped(card.code, 80)}): {findings.claim(card)}"]
    lines += [escaped(card.finding.message, 600)]
    place = findings.place(card.finding)
    lines += [f"at {inline_code(place)}"] if place else []
    lines += [_told(trial) for trial in card.trials if trial.verdict in ("verified", "inconclusive")]
    lines += [_untried(findings.cures(names, card.code), reason) for names, reason in card.untried]
    lines += [escaped(findings.what_to_do(card))] if findings.what_to_do(card) else []
    lines += [
        f"The same cure answers {escaped(other.name, 80)} ({escaped(other.code, 80)})." for other in card.alongside
    ]
    body = "  \n   ".join(lines) + "\n"
    for trial in card.snippets[:1]:
        fenced = _fenced(trial.snippet.strip().splitlines()[:40], "python")
        body += "\n" + "".join(f"   {line}\n" for line in fenced.splitlines())
    return body


def _trials(heading: str, trials: Sequence[Trial]) -> str:
    return _titled(heading, _list(_told(trial) for trial in trials[:ROWS]))


def _told(trial: Trial) -> str:
    return f"**{escaped(trial.fix, 80)}**: {escaped('; '.join(findings.trial_notes(trial)), 1000) or 'no reason given'}"


def _untried(names: str, reason: str) -> str:
    return f"**{escaped(names, 400)}**: not tried; {escaped(reason, 600)}"


def _small(rule: doubts.Settled) -> str:
    return f"{escaped(rule.name, 80)} ({escaped(rule.code, 80)}): {escaped(rule.text, 600)}"


def _doubts(diagnosis: Diagnosis) -> Iterator[str]:
    yield from (f"{escaped(note.label)}: {escaped(note.text, 600)}" for note in doubts.health(diagnosis)[:ROWS])
    yield from (f"{escaped(rule.label)} broke: {escaped(rule.text, 400)}" for rule in doubts.crashed(diagnosis)[:ROWS])
    yield from (
        f"not asked: {escaped(fact.label)}: {escaped(fact.text, 200)}" for fact in doubts.skipped(diagnosis)[:ROWS]
    )


def _parts(parts: Sequence[story.Part]) -> str:
    rows = [f"| {escaped(part.label)} | {wording.share(part.share)} | {wording.duration(part.ns)} |" for part in parts]
    return "\n".join(["| part | share | time |", "|:---|---:|---:|", *rows]) + "\n"


def _titled(heading: str, body: str) -> str:
    return f"\n### {heading}\n\n{body}" if body else ""


def _list(items: Iterable[str]) -> str:
    return "".join(f"- {item}\n" for item in items if item)


def _fenced(lines: Sequence[str], language: str) -> str:
    """A code block whose fence is longer than any run of ticks inside it."""
    body = "\n".join(wording.plain(line, 400) for line in lines)
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}\n"


def inline_code(text: str) -> str:
    """Inline code, with a fence longer than any run of ticks inside it."""
    shown = wording.plain(text, 400)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def escaped(text: object, limit: int = wording.NAME_LIMIT) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, nobody mentioned, no issue linked."""
    shown = _SPECIAL.sub(r"\\\1", wording.plain(text, limit))
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(@|://|#(?=\d))", "\\1\u200b", shown)


REPORT = Report(name="md", filename="report.md", render=render)
