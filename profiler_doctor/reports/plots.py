"""Points between two axes, as shapes that any browser draws: what every plot of the page is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

ROOM = 3.0
"""Percent left free at both ends of an axis, so that no point is cut."""
MOST_TICKS = 5


@dataclass(frozen=True)
class Point:
    """One dot, in percent of the plot's width and height from its top left corner; `label` is what it tells."""

    x: float
    y: float
    tone: str
    label: str


@dataclass(frozen=True)
class Line:
    """A straight line, in the same percent."""

    x1: float
    y1: float
    x2: float
    y2: float
    tone: str
    label: str = ""


@dataclass(frozen=True)
class Tick:
    """A value that an axis names, in percent of its length."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One plot. `caption` says in a sentence what there is to see."""

    caption: str
    height: int
    """Pixels."""
    points: tuple[Point, ...]
    lines: tuple[Line, ...] = ()
    across: tuple[Tick, ...] = ()
    upwards: tuple[Tick, ...] = ()
    x_title: str
    y_title: str = ""
    rows: bool = False
    """Whether the ticks upwards are names of strips, which begin there, and no values."""
    legend: tuple[tuple[str, str], ...] = ()
    """Tone → what it stands for."""


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, logarithmic or not."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value stands, in percent of the axis' length; beyond the ends it stands at the end."""
        low, high, here = (self._scaled(each) for each in (self.low, self.high, value))
        part = (here - low) / (high - low) if high > low else 0.5
        return ROOM + (100 - 2 * ROOM) * min(max(part, 0.0), 1.0)

    def ticks(self, worded: Callable[[float], str], upwards: bool = False) -> tuple[Tick, ...]:
        """Round values on the axis, at most MOST_TICKS or so; `upwards`: percent from the top."""
        values = _decades(self.low, self.high) if self.log else _rounds(self.low, self.high)
        places = [(100 - self.at(value) if upwards else self.at(value), worded(value)) for value in values]
        return tuple(Tick(at, text) for at, text in places)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value


def axis(values: Iterable[float], *, log: bool = False) -> Axis:
    """The axis that holds all of the values, at least one."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = min(known), max(known)
    if high > low:
        return Axis(low, high, log)
    return Axis(low / 2, high * 2, log) if log else Axis(low - (abs(low) / 2 or 1), high + (abs(high) / 2 or 1), log)


def _rounds(low: float, high: float) -> Sequence[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / MOST_TICKS
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _decades(low: float, high: float) -> Sequence[float]:
    """Powers of ten, every second or third where there are many; in less than two decades their doubles too."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    every = max(1, math.ceil((last - first) / (MOST_TICKS + 1)))
    values = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
    return [value for value in values if low * 0.999 <= value <= high * 1.001]
