"""The page that people share: one HTML file that holds everything, readable without scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from profiler_doctor.analyzer.kinds import Report
from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.reports import (
    charts,
    doubts,
    findings,
    page_frame,
    promises,
    ranking,
    roofs,
    scripts,
    step_strip,
    story,
    timeline,
    wording,
)

MOST_BYTES = 2_900_000
"""The page must stay under 3 MB; two thirds of it are plotly."""


@dataclass(frozen=True)
class Section:
    """One part of the page. Its template is `section-<key>.html`."""

    key: str
    title: str
    holds: Callable[[Diagnosis], object] = lambda _: True
    """Whether the document has anything for it; without, it is left out."""


@dataclass(frozen=True)
class Limits:
    """How much of each list the page shows; diagnosis.json has all of it."""

    cards: int = 40
    places: int = 20
    evidence: int = 24
    rows: int = 200
    snippet: int = 4000


SECTIONS = (
    Section("findings", "Findings"),
    Section("time", "Step time"),
    Section("breakdown", "Where the time goes", lambda known: story.breakdowns(known.totals)),
    Section("timeline", "Timeline", lambda known: known.timeline),
    Section("trials", "Cures tried", lambda known: known.trials),
    Section("small", "Checked, does not matter", lambda known: doubts.small(known) or doubts.checked_clean(known)),
    Section("unknown", "What could not be known", doubts.anything_unknown),
    Section("roofline", "Ops and the device's limits", lambda known: known.tables.roofline),
    Section("tables", "Tables", story.tables),
    Section("environment", "Environment and how to reproduce"),
)
"""The page from top to bottom, below the verdict."""
TIGHT = Limits(cards=10, places=5, evidence=8, rows=40, snippet=1000)


def render(diagnosis: Diagnosis, trace_file: Path | None) -> bytes:
    """The page, in UTF-8, always under 3 MB: what does not fit is cut, first the lists, then the interactive charts."""
    page = _page(diagnosis, trace_file, Limits(), scripts.plotly())
    if len(page) > MOST_BYTES:
        page = _page(diagnosis, trace_file, TIGHT, scripts.plotly())
    if len(page) > MOST_BYTES:
        page = _page(diagnosis, trace_file, TIGHT, None)
    return page


def _page(diagnosis: Diagnosis, trace_file: Path | None, limits: Limits, plotly: scripts.Script | None) -> bytes:
    drawn, cards = _charts(diagnosis), ranking.ranked(diagnosis)
    text = (
        _templates()
        .get_template("page.html")
        .render(
            diagnosis=diagnosis,
            cards=[card for card in cards if not card.settled],
            settled=[card for card in cards if card.settled],
            codes=ranking.codes_by_fix(cards),
            joint=ranking.joint_trial(diagnosis),
            charts=drawn,
            limits=limits,
            sections=[section for section in SECTIONS if section.holds(diagnosis)],
            trace_file=trace_file,
            plotly=plotly if any(chart.figure for chart in drawn.values()) else None,
            **page_frame.frame(*([plotly.fingerprint] if plotly else [])),
        )
    )
    return text.encode("utf-8", "replace")


def _charts(diagnosis: Diagnosis) -> dict[str, charts.Chart]:
    """The charts that this document has something for, by key."""
    breakdowns = story.breakdowns(diagnosis.totals)
    found = [charts.stacked(f"breakdown-{index}", breakdown) for index, breakdown in enumerate(breakdowns)]
    found += [chart for chart in (charts.steps(diagnosis), charts.trials(diagnosis.trials)) if chart is not None]
    found += [timeline.chart(diagnosis.timeline)] if diagnosis.timeline else []
    return {chart.key: chart for chart in found}


@cache
def _templates() -> Environment:
    templates = page_frame.templates()
    templates.globals.update(story=story, findings=findings, doubts=doubts, ranking=ranking)
    templates.globals.update(draw=charts, draw_steps=step_strip, promises=promises, roofs=roofs)
    templates.filters["code_line"] = wording.code_line
    templates.filters["in_script"] = _in_script
    return templates


def _in_script(value: object) -> Markup:
    return Markup(scripts.json_for_script(value))  # noqa: S704  # escaped for exactly this place


REPORT = Report(name="html", filename="report.html", render=render)
