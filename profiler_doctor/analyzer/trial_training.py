"""Whether a treated program trains its weights to where the untreated one does, over the same few steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

MOST = 0.25
"""Of the way that the weights came: rounding alone, which an optimizer that divides by a gradient's size makes larger,
stays below; another learning rate, a step left out, or gradients that are added up do not."""
TIMES_OWN = 3.0
"""... or so many times what untreated runs differ by: a script without a seed starts elsewhere each time."""


@dataclass(frozen=True)
class Moves:
    """Of one set: how far each weight came after the same steps, in numbers that tell its elements apart."""

    untreated: tuple[float, ...]
    treated: tuple[float, ...]


def otherwise(moves: Sequence[Moves]) -> str:
    """Why the treated side does not train alike, as the reason of a rejection; empty: it does, or nobody can tell.

    At least two sets are needed: only several untreated runs tell how far the program differs from itself.
    """
    told = [move for move in moves if any(move.untreated) and len(move.untreated) == len(move.treated)]
    if len(told) < 2:
        return ""
    own = max(apart(one.untreated, other.untreated) for one, other in combinations(told, 2))
    least = min(apart(one.untreated, other.treated) for one in told for other in told)
    if least <= max(MOST, TIMES_OWN * own):
        return ""
    return (
        f"it trains otherwise: after the same steps the weights are {least:.0%} of their way from where they would be"
    )


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Distance over the longer of both ways; infinite where a weight is no number on one side."""
    if len(one) != len(other):
        return math.inf
    longer = max(math.hypot(*one), math.hypot(*other))
    distance = math.dist(one, other) / longer if longer else 0.0
    return math.inf if math.isnan(distance) else distance
