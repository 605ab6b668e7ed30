"""The roofline: what each op computes a second, by how much it computes for each byte, under what the device could."""

from __future__ import annotations

from collections.abc import Sequence

from profiler_doctor.analyzer.model import Diagnosis
from profiler_doctor.analyzer.tables import RooflineRow
from profiler_doctor.reports import wording
from profiler_doctor.reports.plots import Axis, Line, Plot, Point, axis

TONES = {"matmul": "p0", "convolution": "p1", "attention": "p2", "pointwise": "p3"}
MOST = 60
"""Ops drawn; the table has more."""
Roof = tuple[float, float]
"""Operations and bytes per second at most."""


def roofline(diagnosis: Diagnosis) -> Plot | None:
    """The plot of the ops that compute anything; None where there are none."""
    rows = [row for row in diagnosis.tables.roofline if row.flops and row.bytes and row.time_ns][:MOST]
    if not rows:
        return None
    roofs = _roofs(rows)
    across = axis([*(_intensity(row) for row in rows), *(flops / size for flops, size in roofs)], log=True)
    upwards = axis([*(speed(row) for row in rows), *(flops for flops, _ in roofs)], log=True)
    kinds = {row.kind for row in rows}
    return Plot(
        caption="; ".join(told(row) for row in rows[:5]),
        height=300,
        points=tuple(
            Point(across.at(_intensity(row)), 100 - upwards.at(speed(row)), TONES.get(row.kind, "p8"), told(row))
            for row in rows
        ),
        lines=tuple(line for roof in roofs for line in _lines(roof, across, upwards)),
        across=across.ticks(lambda value: f"{value:,.3g}"),
        upwards=upwards.ticks(rate, upwards=True),
        x_title="operations for each byte moved, logarithmic",
        y_title="operations per second",
        legend=tuple((tone, kind) for kind, tone in TONES.items() if kind in kinds),
    )


def share(row: RooflineRow) -> float | None:
    """How much of what the device could do the op reached, 0 to 1; None where that is not known."""
    return min(row.roof_ns / row.time_ns, 1.0) if row.roof_ns is not None and row.time_ns else None


def rate(flops_per_s: float) -> str:
    """`12.3 TFLOP/s`."""
    return wording.amount(flops_per_s).removesuffix("B") + "FLOP/s"


def told(row: RooflineRow) -> str:
    """One op in words."""
    reached = share(row)
    of_roof = f", {wording.share(reached)} of what the device could ({row.bound} bound)" if reached is not None else ""
    return f"{wording.plain(row.op, 60)} in {wording.plain(row.type, 40)}: {rate(speed(row))}{of_roof}"


def speed(row: RooflineRow) -> float:
    """Operations per second that it reached."""
    return row.flops * 1e9 / row.time_ns if row.time_ns else 0.0


def _intensity(row: RooflineRow) -> float:
    return row.flops / row.bytes


def _roofs(rows: Sequence[RooflineRow]) -> list[Roof]:
    """The different roofs of the rows, highest first."""
    known = {
        (row.peak_flops_per_s, row.peak_bytes_per_s) for row in rows if row.peak_flops_per_s and row.peak_bytes_per_s
    }
    return sorted(known, reverse=True)


def _lines(roof: Roof, across: Axis, upwards: Axis) -> list[Line]:
    """The slope where memory limits, from the plot's edge, and the flat part where computing does."""
    flops, size = roof
    ridge = flops / size
    start = max(across.low, upwards.low / size)
    label = f"at most {rate(flops)} and {wording.amount(size)}/s"
    slope = (across.at(start), upwards.at(start * size), across.at(ridge), upwards.at(flops))
    flat = (across.at(ridge), upwards.at(flops), 100.0, upwards.at(flops))
    return [Line(x1, 100 - y1, x2, 100 - y2, "roof", label) for x1, y1, x2, y2 in (slope, flat)]
