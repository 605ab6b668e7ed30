"""Every step's time as a dot: the cold one, those timed without the profiler, those recorded with it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.reports import wording
from profiler_doctor.reports.plots import Axis, Line, Plot, Point, Tick, axis

ROW_PX = 34
MOST = 400
FAR_APART = 4.0
"""From this ratio of the longest to the shortest step on the axis is logarithmic: the cold one is not to press the
others together."""
Row = tuple[str, str, Sequence[int]]


def strip(diagnosis: Diagnosis) -> Plot | None:
    """The plot; None where no step was timed without the profiler: then the recorded steps' chart tells all."""
    rows = [row for row in _rows(diagnosis) if row[2]]
    if not diagnosis.totals.timed_step_ns:
        return None
    times = [max(time, 1) for _, _, of_row in rows for time in of_row]
    scale = axis(times, log=max(times) > FAR_APART * min(times))
    points, lines, names = [], [], []
    for place, (name, tone, of_row) in enumerate(rows):
        y = 100 * (place + 0.62) / len(rows)
        points += [Point(scale.at(time), y, tone, f"{name}: {wording.duration(time)}") for time in of_row]
        lines += _median(scale, of_row, y, 18 / len(rows))
        names.append(Tick(100 * place / len(rows), f"{name}, {wording.plural(len(of_row), 'step')}"))
    return Plot(
        caption="; ".join(_told(name, of_row) for name, _, of_row in rows),
        height=ROW_PX * len(rows) + 24,
        points=tuple(points),
        lines=tuple(lines),
        across=scale.ticks(wording.duration),
        upwards=tuple(names),
        rows=True,
        x_title="time of one step" + (", logarithmic" if scale.log else ""),
    )


def _rows(diagnosis: Diagnosis) -> Iterator[Row]:
    cold = diagnosis.capture.cold_step_ns if diagnosis.capture else None
    recorded = [step.dur_ns for step in diagnosis.totals.steps][:MOST]
    yield "cold", "p1", [cold] if cold else []
    yield "profiler off", "p2", diagnosis.totals.timed_step_ns[:MOST]
    yield "profiler on", "p0", recorded


def _median(scale: Axis, times: Sequence[int], y: float, half: float) -> list[Line]:
    if len(times) < 3:
        return []
    middle = statistics.median(times)
    x = scale.at(middle)
    return [Line(x, y - half, x, y + half, "median", f"median {wording.duration(middle)}")]


def _told(name: str, times: Sequence[int]) -> str:
    if len(times) == 1:
        return f"{name} {wording.duration(times[0])}"
    shortest, longest = wording.duration(min(times)), wording.duration(max(times))
    return f"{name} {wording.duration(statistics.median(times))} in the middle, {shortest} to {longest}"
