"""The smallest repeating unit of a sequence of tokens: how a step is found where nobody marked it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

MAX_TOKENS = 2048
"""Longest history looked at; a step of more than half of it is not found."""


@dataclass(frozen=True)
class Period:
    """`tokens[start:]` repeats every `length` tokens; what comes before `start` is a prelude."""

    length: int
    start: int


def smallest_period(tokens: Sequence[Hashable], *, after_the_fact: bool = False) -> Period | None:
    """The smallest period in which `tokens` ends, or None while the evidence is too thin.

    Believed are three whole repeats of a short unit and two of a long one (4 tokens or more), and eight times as many
    explained tokens as unexplained ones before them: a few equal decode calls after a prefill are not yet a loop, a
    loop after one sanity call is. `after_the_fact` lowers the bar to two repeats and a prelude no longer than the
    rest, for a program that has ended and has no more to say.
    """
    skipped = max(0, len(tokens) - MAX_TOKENS)
    recent = tokens[skipped:]
    borders = _borders_of_suffixes(recent)
    best: Period | None = None
    for explained in range(len(recent), 1, -1):
        length, start = explained - borders[explained - 1], len(recent) - explained
        better = best is None or length < best.length
        if better and _believable(length, explained, start, after_the_fact):
            best = Period(length, skipped + start)
    return best


def _believable(length: int, explained: int, start: int, after_the_fact: bool) -> bool:
    if after_the_fact:
        return explained >= 2 * length and start <= explained
    repeats = 3 if length < 4 else 2
    return explained >= repeats * length and 8 * start <= explained


def _borders_of_suffixes(tokens: Sequence[Hashable]) -> list[int]:
    """For the suffix of each length (minus one: the index) its longest proper border, as Knuth, Morris and Pratt do."""
    backwards = list(reversed(tokens))
    borders = [0] * len(backwards)
    match = 0
    for place in range(1, len(backwards)):
        while match and backwards[place] != backwards[match]:
            match = borders[match - 1]
        match += backwards[place] == backwards[match]
        borders[place] = match
    return borders
