"""Two recordings lined up, as text and as Markdown: the step time, the totals, and what changed most in each table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from profiler_doctor.analyzer.comparison import Change, Comparison, NumberChange
from profiler_doctor.reports import check_words, wording

TABLES = (("ops", "Ops"), ("modules", "Modules"), ("kernels", "Kernels"))
NAME = 56
"""Characters of a name in a row; its ends are kept."""
MARKS = {"added": "+", "removed": "-", "unknown": "?", "same": "=", "changed": ""}
WITHIN_SPREAD = "~"
LEGEND = (
    "+ only in B, - only in A, ? not among the rows that are known, ~ within the spread of the steps; times are per "
)
BLANK_LINES = re.compile("\n{3,}")
Cells = tuple[str, ...]


def text(comparison: Comparison, top: int) -> str:
    """For a terminal or a pipe: the `top` largest changes of each table."""
    lines = [
        f"A  {wording.plain(comparison.before)}",
        f"B  {wording.plain(comparison.after)}",
        "",
        sentence(comparison),
        counted(comparison),
        "",
        *_aligned(counters(comparison)),
        "",
    ]
    lines += [*_aligned(numbers(comparison)), ""]
    for table, title in TABLES:
        changes: Sequence[Change] = getattr(comparison, table)
        lines += [f"{title}: {summary(changes)}", *_aligned(_rows(changes, comparison, top)), ""]
    whole = "\n".join([*lines, LEGEND + comparison.unit, *notes(comparison)])
    return BLANK_LINES.sub("\n\n", whole) + "\n"


def markdown(comparison: Comparison, top: int) -> str:
    """For a pull request, the same."""
    lines = [f"### {_cell(comparison.before)} → {_cell(comparison.after)}", "", _cell(sentence(comparison)), ""]
    lines += [_cell(counted(comparison)), "", *_piped(counters(comparison)), ""]
    lines += [*_piped(numbers(comparison)), ""]
    for table, title in TABLES:
        changes: Sequence[Change] = getattr(comparison, table)
        lines += [f"**{title}:** {summary(changes)}", "", *_piped(_rows(changes, comparison, top)), ""]
    whole = "\n".join([*lines, _cell(LEGEND + comparison.unit), "", *map(_cell, notes(comparison))])
    return BLANK_LINES.sub("\n\n", whole) + "\n"


def sentence(comparison: Comparison) -> str:
    """The sentence that goes first."""
    step = comparison.step
    if step.ratio is None:
        return f"Step time: not compared, {step.reason}."
    times = f"A {wording.steps(step.before)}, B {wording.steps(step.after)}"
    if step.verdict in ("faster", "slower"):
        return f"B is {wording.times(step.ratio)} as fast as A: {times}; {step.reason}."
    said = "A and B take the same time" if step.verdict == "same" else "Not told apart"
    return f"{said} ({step.reason}): {times}."


def counted(comparison: Comparison) -> str:
    """What a check says of the counters of a step, in a sentence; empty where they were not counted on both sides."""
    if not comparison.counters:
        return ""
    return f"Counters of a step: {check_words.state(comparison.checked)} ({check_words.counted(comparison.checked)})."


def counters(comparison: Comparison) -> list[Cells]:
    """The counters that are not the same, below a row of headings, in the words of a check; empty where all are."""
    rows = check_words.cells(comparison.checked)
    return [check_words.HEADINGS, *rows] if rows else []


def summary(changes: Sequence[Change]) -> str:
    """How many rows changed, and in what way."""
    counts = [(status, sum(change.status == status for change in changes)) for status in MARKS]
    return ", ".join(f"{count:,} {status}" for status, count in counts if count) or "none"


def notes(comparison: Comparison) -> list[str]:
    """What qualifies the comparison, a sentence each."""
    return [f"- {wording.plain(note)}" for note in comparison.notes]


def numbers(comparison: Comparison) -> list[Cells]:
    """The totals that differ, below a row of headings; empty where none does."""
    rows = [_number(number) for number in comparison.numbers if number.before != number.after]
    return [(f"per {comparison.unit}", "A", "B", "change"), *rows] if rows else []


def _number(number: NumberChange) -> Cells:
    shown = [_value(number.name, value) for value in (number.before, number.after)]
    label = number.name.removesuffix("_ns").replace("_", " ")
    return (label, *shown, _relative(number.before, number.after))


def _value(name: str, value: float) -> str:
    if name.endswith("_ns"):
        return wording.duration(value)
    return wording.amount(value) if name.endswith("bytes") else f"{value:,.4g}"


def _rows(changes: Sequence[Change], comparison: Comparison, top: int) -> list[Cells]:
    """The largest changes, with the columns that say anything."""
    differing = [change for change in changes if change.status != "same"][:top]
    rows: list[Cells] = [("", "name", "count", "host time", "change", "GPU time", "change")]
    rows += [_row(change, comparison) for change in differing]
    said = [place for place in range(len(rows[0])) if any(row[place] for row in rows[1:])]
    return [tuple(row[place] for place in said) for row in rows] if differing else []


def _row(change: Change, comparison: Comparison) -> Cells:
    return (mark(change), wording.plain(change.name, NAME), *cells(change, comparison))


def mark(change: Change) -> str:
    """The sign that goes before a row; `LEGEND` says what each means."""
    return WITHIN_SPREAD if change.apart is False and change.status == "changed" else MARKS[change.status]


def cells(change: Change, comparison: Comparison) -> Cells:
    """Count, host time and its change, GPU time and its change, each empty where it says nothing."""
    per = (comparison.steps_before, comparison.steps_after) if comparison.unit == "step" else (1, 1)
    sides = [(amount, steps) for amount, steps in zip((change.before, change.after), per, strict=True)]
    counts = [f"{amount.count / steps:,.4g}" if amount else "" for amount, steps in sides]
    host = [amount.host_ns / steps if amount else None for amount, steps in sides]
    gpu = [amount.gpu_ns / steps if amount else None for amount, steps in sides]
    return (_arrow(counts), *_both(host, change.host_change_ns), *_both(gpu, change.gpu_change_ns))


def _both(sides: Sequence[float | None], change_ns: float | None) -> tuple[str, str]:
    """Both times with an arrow between them, and what that amounts to; empty where nothing took any time."""
    if not any(sides):
        return "", ""
    shown = _arrow(["" if side is None else wording.duration(side) for side in sides])
    if change_ns is None:
        return shown, ""
    before, after = (side or 0.0 for side in sides)
    sign = "+" if change_ns > 0 else ""
    return shown, f"{sign}{wording.duration(change_ns)}{f' ({_relative(before, after)})' if before and after else ''}"


def _arrow(sides: Sequence[str]) -> str:
    before, after = sides
    return before if before == after else f"{before or '·'} → {after or '·'}"


def _relative(before: float, after: float) -> str:
    return f"{100 * (after / before - 1):+.1f} %" if before else ""


def _aligned(rows: Sequence[Cells]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _piped(rows: Sequence[Cells]) -> list[str]:
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return [*lines[:1], "|" + " --- |" * len(rows[0]), *lines[1:]] if rows else []


def _cell(raw: str) -> str:
    """Text that stands for itself in Markdown, whatever characters are in it."""
    escaped = wording.plain(raw, 1000)
    for mark in "\\`*_<>|[]#~":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped
