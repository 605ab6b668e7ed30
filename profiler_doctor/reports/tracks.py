"""Our findings as chrome trace events: one process, a thread for each rule, slices that never overlap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profiler_doctor.analyzer.model import Diagnosis, Finding
from profiler_doctor.reports import findings as told
from profiler_doctor.reports import wording
from profiler_doctor.reports.ranking import Card, ranked

PID = 2_000_000_007
"""Above any process id of an operating system (Linux: 4,194,304) and below 2³¹, where viewers' integers end."""
PROCESS = "Profiler Doctor"
CATEGORY = "profiler_doctor"
FIRST = -1
"""Sorts our tracks above all others (kineto's begin at 0)."""


@dataclass(frozen=True)
class Slice:
    """One stretch of one finding, in the trace's own nanoseconds."""

    start_ns: int
    end_ns: int
    finding: int
    """Index into the rule's findings."""


def track_events(diagnosis: Diagnosis, window_ns: tuple[int, int] | None = None) -> Iterator[str]:
    """JSON texts of our events, metadata first, the most important rule on the first thread. Pure ASCII.

    Stretches outside the window (None: there is none) are left out.
    """
    cards = [card for head in ranked(diagnosis) for card in (head, *head.alongside)]
    yield from _metadata("process", PROCESS, 0, FIRST)
    yield named("process_labels", {"labels": wording.plain(diagnosis.verdict.sentence, 400)}, 0)
    for thread, card in enumerate(cards, start=1):
        findings = (card.finding, *card.places)
        yield from _metadata("thread", wording.plain(f"{card.code} {card.name}", 120), thread, thread)
        for piece in disjoint(_slices(findings, window_ns)):
            yield _event(card, findings[piece.finding], piece, thread)


def disjoint(slices: Iterable[Slice]) -> list[Slice]:
    """The same stretches without any overlap, in time order: where two meet, the one that began later is shown.

    Stretches of one finding are merged where they touch or overlap; what is left of an outer one continues after the
    inner one has ended.
    """
    shown: list[Slice] = []
    open_ones: list[Slice] = []
    now = 0
    for piece in sorted(_merged(slices), key=lambda piece: (piece.start_ns, -piece.end_ns)):
        now = _close(open_ones, piece.start_ns, now, shown)
        if open_ones and now < piece.start_ns:
            shown.append(Slice(now, piece.start_ns, open_ones[-1].finding))
        now = piece.start_ns
        open_ones.append(piece)
        if piece.end_ns == piece.start_ns:  # a moment: nothing can overlap it, and it ends as it begins
            shown.append(open_ones.pop())
    _close(open_ones, None, now, shown)
    return shown


def _close(open_ones: list[Slice], until_ns: int | None, now: int, shown: list[Slice]) -> int:
    """Show and take away the open stretches that end before `until_ns` (None: all), innermost first."""
    while open_ones and (until_ns is None or open_ones[-1].end_ns <= until_ns):
        ended = open_ones.pop()
        if ended.end_ns > now:
            shown.append(Slice(now, ended.end_ns, ended.finding))
            now = ended.end_ns
    return now


def _merged(slices: Iterable[Slice]) -> list[Slice]:
    merged: list[Slice] = []
    for piece in sorted(slices, key=lambda piece: (piece.finding, piece.start_ns)):
        last = merged[-1] if merged else None
        if last is not None and last.finding == piece.finding and piece.start_ns <= last.end_ns:
            merged[-1] = Slice(last.start_ns, max(last.end_ns, piece.end_ns), last.finding)
        else:
            merged.append(piece)
    return merged


def _slices(findings: Sequence[Finding], window_ns: tuple[int, int] | None) -> Iterator[Slice]:
    for index, finding in enumerate(findings):
        intervals = finding.evidence.get("intervals_ns")
        for interval in intervals if isinstance(intervals, list | tuple) else ():
            start, end = (int(time) for time in interval)
            if end >= start and (window_ns is None or (start <= window_ns[1] and end >= window_ns[0])):
                yield Slice(start, end, index)


def _event(card: Card, finding: Finding, piece: Slice, thread: int) -> str:
    cured = f"{wording.name(card.verified.fix)}: {wording.speed(card.verified)}" if card.verified else "no"
    args = {
        "code": wording.name(card.code),
        "message": wording.plain(finding.message, 1000),
        "share": finding.stake.share,
        "worth": told.claim(card),
        "where": told.place(finding),
        "cures": [wording.name(cure) for cure in finding.cures],
        "verified": cured,
    }
    known = {"name": wording.name(card.name), "cat": CATEGORY, "pid": PID, "tid": thread, "args": args}
    times = f'"ph": "X", "ts": {_us(piece.start_ns)}, "dur": {_us(piece.end_ns - piece.start_ns)}, '
    return "{" + times + json.dumps(known)[1:]


def _metadata(kind: str, name: str, thread: int, order: int) -> Iterator[str]:
    yield named(f"{kind}_name", {"name": name}, thread)
    yield named(f"{kind}_sort_index", {"sort_index": order}, thread)


def named(what: str, args: dict[str, object], thread: int) -> str:
    """A metadata event of our process."""
    return json.dumps({"ph": "M", "name": what, "pid": PID, "tid": thread, "args": args})


def _us(ns: int) -> str:
    """Nanoseconds as the format's microseconds, exactly: a float would lose the last digits of an absolute time."""
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"
