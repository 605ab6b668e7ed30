"""The report in a terminal: the verdict first, then what supports it, then the command to type next."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis, Finding, Trial
from profiler_doctor.reports import doubts, findings, ranking, story, wording
from profiler_doctor.reports.ranking import Card

TOP = 5
"""Findings shown: what a person acts on in one sitting."""
PARTS = 8
"""Rows of "where the step goes"."""
WIDEST = 100
"""Columns used at most: longer lines of prose are hard to read."""
_SNIPPET_LINES = 8
_ASCII = str.maketrans({"×": "x", "–": "-", "—": "-", "…": "...", "·": "|", "µ": "u", "█": "#", "→": "->", "≥": ">="})


def render(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:  # noqa: ARG001  # the kind's signature
    """The report as it goes into a file: 80 columns, no colour."""
    lines = io.StringIO()
    console = Console(file=lines, width=80, color_system=None, force_terminal=False, emoji=False)
    console.print(*blocks(diagnosis, TOP), sep="\n")
    return _unpadded(lines.getvalue()).encode()


def print_text(diagnosis: Diagnosis, file: TextIO, top: int = TOP, page: Path | None = None) -> None:
    """The report on a terminal or into a pipe: its width, and colour only where it is wanted (NO_COLOR, pipes).

    `page` is the path of the full report to point at; None: the one in the run's folder, if there is a run.
    """
    console = Console(file=file, emoji=False)
    console.width = min(console.width, WIDEST)
    with console.capture() as captured:
        console.print(*blocks(diagnosis, top, page), sep="\n")
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write(_unpadded(_speakable(captured.get(), encoding)))


def blocks(diagnosis: Diagnosis, top: int = TOP, page: Path | None = None) -> Iterator[RenderableType]:
    """The report's pieces from top to bottom, for a rich console of any width."""
    yield from _head(diagnosis)
    yield from _time(diagnosis)
    yield from _findings(diagnosis, top)
    yield from _trials("Tried and rejected", ranking.trials_that(diagnosis, "rejected"), diagnosis)
    for heading, verdict in (("Tried, not decided", "inconclusive"), ("Not tried", "not_tried")):
        left = _not_on_a_card(ranking.trials_that(diagnosis, verdict), diagnosis, top)
        yield from _trials(heading, left, diagnosis)
    yield from _small(diagnosis)
    yield from _doubts(diagnosis)
    yield from _next(diagnosis, page)


def _head(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield _line(("Profiler Doctor", "dim"), (f"  {story.title(diagnosis)}", "bold"))
    yield ""
    yield Text(wording.plain(diagnosis.verdict.sentence, 1000), style="bold")
    yield ""
    yield _facts(story.about(diagnosis))


def _time(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield from _title("Step time")
    for sentence in story.step_time(diagnosis):
        yield _indented(Text(sentence))
    for breakdown in story.breakdowns(diagnosis.totals):
        yield from _title(breakdown.title)
        yield _bars(story.folded(breakdown, PARTS))
    if not story.breakdowns(diagnosis.totals):
        yield from _ops(story.top_ops(diagnosis, PARTS))
    beware = doubts.beware(diagnosis)
    if beware and story.breakdowns(diagnosis.totals):
        yield _indented(Text(beware, style="dim"))


def _ops(ops: Sequence[story.Fact]) -> Iterator[RenderableType]:
    """Where nothing better is known of where the time goes: the ops that took most of it."""
    if ops:
        yield from _title("The ops that took most time (their own, without the ops inside)")
        yield _facts(ops)


def _bars(parts: Sequence[story.Part]) -> RenderableType:
    table = Table.grid(padding=(0, 2), expand=False)
    table.add_column(max_width=36, overflow="ellipsis", no_wrap=True)
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    longest = max(part.share for part in parts)
    for part in parts:
        bar = "█" * max(round(20 * part.share / longest), 1)
        table.add_row(
            part.label, Text(bar, style="cyan"), wording.share(part.share), Text(wording.duration(part.ns), "dim")
        )
    return _indented(table)


def _findings(diagnosis: Diagnosis, top: int) -> Iterator[RenderableType]:
    cards = ranking.open_cards(diagnosis)
    yield from _title("Findings")
    if not cards:
        yield _indented(Text(findings.nothing(diagnosis)))
        return
    for number, card in enumerate(cards[:top], start=1):
        yield from _card(number, card)
    if len(cards) > top:
        yield _indented(Text(f"{len(cards) - top} more: `--top {len(cards)}` shows them, and so does the full report."))
    yield from _together(diagnosis)


def _card(number: int, card: Card) -> Iterator[RenderableType]:
    if number > 1:
        yield ""
    claim = (findings.claim(card), "bold green" if card.verified else "yellow")
    name = wording.name(card.name)
    yield _indented(_line((f"{number}. ", "dim"), (name, "bold"), (f"  {wording.name(card.code)}  ", "dim"), claim))
    yield _indented(Text(wording.plain(card.finding.message, 600)), 5)
    yield from (_indented(Text(f"at {place}", style="dim"), 5) for place in _places(card))
    yield from (_indented(_cure(trial), 5) for trial in card.trials if trial.verdict != "not_tried")
    for names, reason in card.untried:
        told = wording.plain(f"{findings.cures(names, card.code)}: not tried; {reason}", 600)
        yield _indented(Text(told), 5)
    if not card.trials and card.finding.cures:
        yield _indented(Text(f"possible cures: {findings.cures(card.finding.cures, card.code)}"), 5)
    if findings.what_to_do(card):
        yield _indented(Text(findings.what_to_do(card)), 5)
    yield from _snippet(card)
    for other in card.alongside:
        name = wording.name(f"{other.name} ({other.code})")
        yield _indented(Text(f"The same cure answers {name}; its gain is counted here."), 5)


def _cure(trial: Trial) -> RenderableType:
    """One cure on its card; what was turned down is told in full further down."""
    words = {
        "verified": _told(trial),
        "inconclusive": f"tried, not decided; {_told(trial)}",
        "rejected": "tried and rejected, see below",
    }
    return _line((f"{wording.name(trial.fix)}: ", "bold"), (words[trial.verdict], ""))


def _places(card: Card) -> Iterator[str]:
    sightings: tuple[Finding, ...] = (card.finding, *card.places)
    known = list(dict.fromkeys(place for place in map(findings.place, sightings) if place))
    yield from known[:3]
    if len(known) > 3:
        yield f"{wording.plural(len(known) - 3, 'more place')}"


def _snippet(card: Card) -> Iterator[RenderableType]:
    for trial in card.snippets[:1]:
        lines = [wording.plain(line, 200) for line in trial.snippet.strip().splitlines()]
        yield from (_indented(Text(line, style="cyan"), 7) for line in lines[:_SNIPPET_LINES])
        if len(lines) > _SNIPPET_LINES:
            yield _indented(Text("… (the full report has all of it)", style="dim"), 7)


def _together(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    joint = ranking.joint_trial(diagnosis)
    if joint is not None:
        yield ""
        yield _indented(Text(findings.joint(joint)))
    stake = diagnosis.joint_stake
    estimated = [card for card in ranking.open_cards(diagnosis) if not card.verified and card.finding.stake.share]
    if len(estimated) > 1 and stake.share:
        worth = f"{wording.share(stake.share)} of the {ranking.whole(diagnosis)}"
        yield ""
        yield _indented(Text(f"All estimates taken together: up to {worth}, not their sum."))


def _trials(heading: str, trials: Sequence[Trial], diagnosis: Diagnosis) -> Iterator[RenderableType]:
    shown = [trial for trial in trials if "+" not in trial.fix]
    if not shown:
        return
    yield from _title(heading)
    codes = ranking.codes_by_fix(ranking.ranked(diagnosis))
    for trial in shown[:TOP]:
        because = f" (for {', '.join(codes[trial.fix])})" if trial.fix in codes else ""
        fix = wording.name(f"{trial.fix}{because}")
        yield _indented(_line((f"{fix}: ", "bold"), (_told(trial) or "no reason given", "")))
    yield from _rest(len(shown))


def _not_on_a_card(trials: Sequence[Trial], diagnosis: Diagnosis, top: int) -> Sequence[Trial]:
    told = {trial.fix for card in ranking.open_cards(diagnosis)[:top] for trial in card.trials}
    return [trial for trial in trials if trial.fix not in told]


def _told(trial: Trial) -> str:
    return "; ".join(findings.trial_notes(trial))


def _small(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    seen, quiet = doubts.small(diagnosis), doubts.checked_clean(diagnosis)
    if not seen and not quiet:
        return
    yield from _title("Checked, does not matter")
    for rule in seen[:TOP]:
        yield _indented(_line((f"{wording.name(rule.name)} ({rule.code}): ", "bold"), (rule.text, "")))
    yield from _rest(len(seen))
    if quiet:
        yield _indented(Text(f"{wording.plural(len(quiet), 'other rule' if seen else 'rule')} looked and saw nothing."))


def _doubts(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    health, broken, skipped = doubts.health(diagnosis), doubts.crashed(diagnosis), doubts.skipped(diagnosis)
    if not health and not broken and not skipped:
        return
    yield from _title("What could not be known")
    yield from (_indented(_line((f"{note.label}: ", "bold"), (note.text, ""))) for note in health[:8])
    yield from _rest(len(health), 8)
    for rule in broken:
        yield _indented(_line((f"{rule.label} broke: ", "bold red"), (f"{rule.text}. This is a bug of ours.", "")))
    if skipped:
        rules = sum(fact.label.count(",") + 1 for fact in skipped)
        reasons = "; ".join(fact.text for fact in skipped[:4])
        yield _indented(
            Text(f"{wording.plural(rules, 'rule')} could not be asked: {reasons}{'; …' if len(skipped) > 4 else '.'}")
        )


def _next(diagnosis: Diagnosis, page: Path | None) -> Iterator[RenderableType]:
    step = story.next_step(diagnosis)
    yield from _title("Next")
    yield _indented(Text(f"{step.why}:"))
    yield _indented(Text(step.command, style="bold cyan", overflow="fold"), 4)
    if page is None and diagnosis.capture is not None:
        page = Path(diagnosis.capture.folder) / "report.html"
    if page is not None:
        yield _indented(Text("The full report:"))
        yield _indented(Text(wording.plain(page, 1000), style="cyan", overflow="fold"), 4)


def _rest(all_of_them: int, shown: int = TOP) -> Iterator[RenderableType]:
    if all_of_them > shown:
        yield _indented(Text(f"and {all_of_them - shown} more, in the full report", style="dim"))


def _title(words: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(words, style="bold underline")


def _facts(facts: Iterable[story.Fact]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True, max_width=36, overflow="ellipsis")
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(Text(fact.label), Text(fact.text))
    return _indented(table)


def _line(*pieces: tuple[str, str]) -> Text:
    """Text from (words, style) pairs; words are cleaned, and never read as markup."""
    return Text.assemble(*((_keep_edges(words), style) for words, style in pieces))


def _keep_edges(words: str) -> str:
    return wording.plain(words, 1200)


def _indented(content: RenderableType, by: int = 2) -> RenderableType:
    return Padding(content, (0, 0, 0, by), expand=False)


def _unpadded(lines: str) -> str:
    """Without the blanks that rich puts at the end of lines."""
    return "".join(f"{line.rstrip()}\n" for line in lines.splitlines())


def _speakable(lines: str, encoding: str) -> str:
    """What a terminal of this encoding can print: signs it lacks are spelled in ASCII."""
    try:
        lines.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return lines.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return lines


REPORT = Report(name="text", filename=None, render=render)
