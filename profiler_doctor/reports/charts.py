"""The page's charts: shapes that any browser draws, and for those who point at them the same as plotly figures."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from profiler_doctor.analyzer.model import Diagnosis, Trial
from profiler_doctor.analyzer.totals import Step
from profiler_doctor.reports import story, wording

PARTS = 9
"""Parts told apart by colour; more cannot be, so the rest is put together."""
BARS = 240
"""Steps drawn one by one; of more, each bar shows the longest of a group."""
_WIDEST_BAR = 4.0
"""Percent of the chart's width: a few steps look like steps, not like blocks."""
_FONT = {"family": "inherit", "size": 12, "color": "--ink"}


@dataclass(frozen=True)
class Mark:
    """One drawn thing, in percent of the chart's width and height; `tone` names its colour."""

    x: float
    width: float
    tone: str
    label: str
    height: float = 100.0


@dataclass(frozen=True)
class Chart:
    """One figure: a key that is unique on the page, what it says in a sentence, static marks, and plotly's data if any.

    A colour in `figure` is the name of a CSS variable (`--ink`), which the page's script puts in by theme.
    """

    key: str
    caption: str
    marks: tuple[Mark, ...]
    figure: dict[str, object] = field(default_factory=dict)


def stacked(key: str, breakdown: story.Breakdown) -> Chart:
    """One bar cut into the parts of a breakdown."""
    parts = story.folded(breakdown, PARTS)
    marks, at = [], 0.0
    for index, part in enumerate(parts):
        label = f"{part.label}: {wording.share(part.share)}, {wording.duration(part.ns)}"
        marks.append(Mark(at, 100 * part.share, tone(index, part), label))
        at += 100 * part.share
    caption = ", ".join(f"{part.label} {wording.share(part.share)}" for part in parts)
    bars = [_piece(mark) for mark in marks]
    layout = {"barmode": "stack", "xaxis": {"visible": False, "range": [0, 100]}, "yaxis": {"visible": False}}
    return Chart(key, caption, tuple(marks), figure(bars, layout, 48, margin=0))


def tone(index: int, part: story.Part) -> str:
    """The colour of a part by its place; what is put together is grey."""
    return "rest" if part.label.startswith("all else") else f"p{index % PARTS}"


def _piece(mark: Mark) -> dict[str, object]:
    bar = {"type": "bar", "orientation": "h", "x": [mark.width], "y": [""], "marker": {"color": f"--{mark.tone}"}}
    return {**bar, "hovertemplate": f"{literal(mark.label)}<extra></extra>"}


def steps(diagnosis: Diagnosis) -> Chart | None:
    """The recorded steps one after the other; None for fewer than two."""
    recorded = diagnosis.totals.steps
    if len(recorded) < 2:
        return None
    shown = _longest_of_each_group(recorded)
    longest = max(1, *(step.dur_ns for step in shown))
    width = min(100 / len(shown), _WIDEST_BAR)
    marks = tuple(
        Mark(index * width, width * 0.8, "p0", f"{wording.name(step.name)}: {wording.duration(step.dur_ns)}",
             100 * step.dur_ns / longest)
        for index, step in enumerate(shown)
    )  # fmt: skip
    grouped = f", each bar the longest of {math.ceil(len(recorded) / len(shown))}" if len(shown) < len(recorded) else ""
    shortest = wording.duration(min(step.dur_ns for step in recorded))
    caption = f"{wording.plural(len(recorded), 'recorded step')}{grouped}: {shortest} to {wording.duration(longest)}"
    return Chart("steps", caption, marks, _steps_figure(shown, marks))


def _longest_of_each_group(recorded: Sequence[Step]) -> Sequence[Step]:
    size = math.ceil(len(recorded) / BARS)
    groups = [recorded[start : start + size] for start in range(0, len(recorded), size)]
    return [max(group, key=lambda step: step.dur_ns) for group in groups]


def _steps_figure(shown: Sequence[Step], marks: Sequence[Mark]) -> dict[str, object]:
    bars = {
        "type": "bar",
        "y": [round(step.dur_ns / 1e6, 6) for step in shown],
        "text": [literal(mark.label) for mark in marks],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": "--p0"},
    }
    axes = {
        "xaxis": {"visible": False, "range": [-0.6, max(len(shown), 100 / _WIDEST_BAR) - 0.4]},
        "yaxis": {"title": {"text": "ms"}, "gridcolor": "--line", "rangemode": "tozero"},
    }
    return figure([bars], axes, 180, margin=48)


def trials(tried: Sequence[Trial]) -> Chart | None:
    """Every measured trial as a point with its interval, on a scale where twice as fast and half as fast are as far."""
    measured = [trial for trial in tried if trial.speedup and trial.low and trial.high]
    if not measured:
        return None
    low, high = _bounds(measured)
    marks = tuple(_span(trial, low, high) for trial in measured)
    caption = "; ".join(f"{wording.name(trial.fix)} {wording.times(trial.speedup or 1.0)}" for trial in measured)
    return Chart("trials", f"Times as fast, with the 99 % interval: {caption}", marks)


def _bounds(measured: Sequence[Trial]) -> tuple[float, float]:
    """The logarithms at both ends of the scale: 1 is always on it, with some room beyond the widest interval."""
    lows = [math.log2(trial.low or 1.0) for trial in measured]
    highs = [math.log2(trial.high or 1.0) for trial in measured]
    return min(-0.25, *lows) - 0.1, max(0.25, *highs) + 0.1


def _span(trial: Trial, low: float, high: float) -> Mark:
    def at(ratio: float | None) -> float:
        return 100 * (math.log2(ratio or 1.0) - low) / (high - low)

    return Mark(
        at(trial.low), at(trial.high) - at(trial.low), trial.verdict, wording.name(trial.fix), at(trial.speedup)
    )


def one_at(tried: Sequence[Trial]) -> float:
    """Where on the scale of `trials` stands 1, "as fast as before", in percent."""
    low, high = _bounds([trial for trial in tried if trial.speedup and trial.low and trial.high])
    return -100 * low / (high - low)


def figure(data: Sequence[object], axes: Mapping[str, object], height: int, *, margin: int) -> dict[str, object]:
    """plotly's data and layout, in the page's own colours and letters; `height` and `margin` in pixels."""
    margins = {"l": margin, "r": 8 if margin else 0, "t": 0, "b": 40 if margin else 0}
    layout = {
        "height": height, "margin": margins, "font": _FONT, "showlegend": False,
        "paper_bgcolor": "--clear", "plot_bgcolor": "--clear",
        "hoverlabel": {"bgcolor": "--paper", "bordercolor": "--line", "font": _FONT, "align": "left"},
    }  # fmt: skip
    return {"data": list(data), "layout": {**layout, **axes}}


def literal(text: str) -> str:
    """Text that plotly shows as it stands: it reads HTML tags, entities, %{…} and formulas between $ in every label."""
    return html.escape(text, quote=False).replace("%{", "%\u200b{").replace("$", "&#36;")
