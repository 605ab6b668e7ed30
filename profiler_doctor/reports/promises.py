"""What estimates promised beside what trials measured, for everything that has both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profiler_doctor.analyzer.model import Diagnosis, Trial
from profiler_doctor.reports import wording
from profiler_doctor.reports.plots import Line, Plot, Point, axis
from profiler_doctor.reports.ranking import joint_trial, ranked

VERDICTS = {"verified": "verified", "rejected": "rejected", "inconclusive": "not decided"}


@dataclass(frozen=True)
class Promise:
    """One cure: the share of the step that it was to save at most, and what it saved, with its interval."""

    name: str
    estimated: float
    measured: float
    low: float
    high: float
    verdict: str


def promises(diagnosis: Diagnosis) -> tuple[Promise, ...]:
    """Every trial that was measured and whose finding had an estimate; the largest estimate first."""
    found = {promise.name: promise for promise in _promises(diagnosis)}
    return tuple(sorted(found.values(), key=lambda promise: -promise.estimated))


def _promises(diagnosis: Diagnosis) -> Iterator[Promise]:
    for card in (card for head in ranked(diagnosis) for card in (head, *head.alongside)):
        for trial in card.trials:
            yield from _promise(f"{trial.fix} for {card.code}", card.finding.stake.share, trial)
    together = joint_trial(diagnosis)
    if together is not None:
        yield from _promise("all verified cures together", diagnosis.joint_stake.share, together)


def _promise(name: str, estimated: float | None, trial: Trial) -> Iterator[Promise]:
    if estimated is not None and trial.speedup and trial.low and trial.high:
        saved, low, high = (1 - 1 / ratio for ratio in (trial.speedup, trial.low, trial.high))
        yield Promise(wording.plain(name, 100), estimated, saved, low, high, trial.verdict)


def plot(kept: tuple[Promise, ...]) -> Plot | None:
    """Estimate to the right, measured gain upwards, and the diagonal on which both are the same; None for nothing."""
    if not kept:
        return None
    scale = axis([0.0, *(each for one in kept for each in (one.estimated, one.low, one.high))])
    points, lines = [], [_diagonal(scale.at(0.0), scale.at(scale.high)), _nothing(scale.at(0.0))]
    for one in kept:
        x = scale.at(one.estimated)
        lines.append(Line(x, 100 - scale.at(one.low), x, 100 - scale.at(one.high), one.verdict))
        told = f"{one.name}: up to {wording.share(one.estimated)} estimated, {wording.share(one.measured)} measured"
        points.append(Point(x, 100 - scale.at(one.measured), one.verdict, told))
    seen = {one.verdict for one in kept}
    return Plot(
        caption="; ".join(point.label for point in points),
        height=280,
        points=tuple(points),
        lines=tuple(lines),
        across=scale.ticks(wording.share),
        upwards=scale.ticks(wording.share, upwards=True),
        x_title="estimated share of the step, at most",
        y_title="measured gain",
        legend=tuple((verdict, word) for verdict, word in VERDICTS.items() if verdict in seen),
    )


def _diagonal(start: float, end: float) -> Line:
    return Line(start, 100 - start, end, 100 - end, "middle", "as much as estimated")


def _nothing(zero: float) -> Line:
    return Line(0, 100 - zero, 100, 100 - zero, "grid", "nothing gained")
