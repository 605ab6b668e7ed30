"""The lines of the user's program around each finding, read once, when the document is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from profiler_doctor.analyzer.model import Finding, RuleOutcome, Where

AROUND = 3
"""Lines before and after the finding's own."""
WIDEST = 160
"""Characters of a line; what is beyond is cut off."""
LARGEST_FILE = 4_000_000
"""Bytes; a larger file is no program that somebody wrote."""
Lines = Callable[[str], tuple[str, ...]]


def with_excerpts(outcomes: tuple[RuleOutcome, ...], folder: Path) -> tuple[RuleOutcome, ...]:
    """The same outcomes, every place in a Python file that can be read with the lines around it.

    Call it for programs that ran here and just now: a foreign trace may name any file of this machine. `folder` is the
    script's own, where files that the recording names without one are looked for.
    """
    lines = _reader(folder)
    return tuple(
        replace(outcome, findings=tuple(_with_excerpt(finding, lines) for finding in outcome.findings))
        for outcome in outcomes
    )


def _with_excerpt(finding: Finding, lines: Lines) -> Finding:
    where = finding.where
    if where.file is None or where.line is None or where.line < 1:
        return finding
    return replace(finding, where=_around(where, where.line, lines(where.file)))


def _around(where: Where, line: int, lines: tuple[str, ...]) -> Where:
    """Unchanged where the file has no such line: then it is another file, or another version of it."""
    if line > len(lines):
        return where
    first = max(line - AROUND, 1)
    shown = lines[first - 1 : line + AROUND]
    return replace(where, excerpt=tuple(text[:WIDEST].rstrip() for text in shown), excerpt_from=first)


def _reader(folder: Path) -> Lines:
    @cache
    def lines(file: str) -> tuple[str, ...]:
        path = folder / file  # an absolute file stays what it is
        try:
            if path.suffix != ".py" or path.stat().st_size > LARGEST_FILE:
                return ()
            return tuple(path.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError):
            return ()

    return lines
