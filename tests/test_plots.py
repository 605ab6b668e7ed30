"""The points of a plot stand where their numbers say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from profiler_doctor.analyzer.model import Trial
from profiler_doctor.analyzer.totals import StepTime, Totals
from profiler_doctor.reports import timeline
from profiler_doctor.reports.plots import Axis, axis
from profiler_doctor.reports.promises import plot, promises
from profiler_doctor.reports.roofs import roofline
from profiler_doctor.reports.step_strip import strip
from tests import documents

ROOM = 3  # percent at each end: 0 % of the axis stands at 3, all of it at 97, half of it at 50


@pytest.mark.parametrize(
    ("scale", "value", "at"),
    [(Axis(0, 10), 5, 50), (Axis(0, 10), 0, 3), (Axis(1, 100, log=True), 10, 50), (Axis(0, 10), 99, 97)],
)
def test_a_value_stands_at_its_share_of_the_axis(scale: Axis, value: float, at: float) -> None:
    assert scale.at(value) == pytest.approx(at)


@pytest.mark.parametrize(
    ("scale", "named"),
    [
        (Axis(0, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (Axis(-0.07, 0.31), ["0", "0.1", "0.2", "0.3"]),
        (Axis(3, 40, log=True), ["5", "10", "20"]),
        (Axis(1, 1e12, log=True), ["1", "100", "10000", "1e+06", "1e+08", "1e+10", "1e+12"]),
    ],
)
def test_ticks_are_round(scale: Axis, named: list[str]) -> None:
    assert [tick.text for tick in scale.ticks(lambda value: f"{round(value, 9):g}")] == named


@pytest.mark.parametrize("log", [False, True])
def test_one_value_alone_stands_in_the_middle(log: bool) -> None:
    assert axis([7.0], log=log).at(7.0) == pytest.approx(50)


def test_steps_have_a_row_for_each_way_they_were_timed() -> None:
    drawn = strip(documents.resnet())

    assert drawn is not None
    assert [tick.text for tick in drawn.upwards] == ["cold, 1 step", "profiler off, 5 steps", "profiler on, 5 steps"]
    assert len(drawn.points) == 11
    assert drawn.x_title == "time of one step, logarithmic"  # 1900 ms beside 208 ms
    slowest = max(drawn.points, key=lambda point: point.x)
    assert (slowest.label, slowest.x) == ("cold: 1.90 s", 97)


def test_without_steps_of_our_own_timing_there_is_no_strip() -> None:
    assert strip(documents.gpu_trace()) is None
    assert strip(replace(documents.resnet(), totals=Totals(step_ns=StepTime()))) is None


def test_an_estimate_stands_beside_what_was_measured() -> None:
    # given a finding estimated at 4 % whose cure was 1.02 times as fast (0.98 to 1.06)
    (kept,) = promises(documents.resnet())

    assert (kept.name, kept.estimated, kept.verdict) == ("inference-mode for OPT004", 0.04, "inconclusive")
    assert (kept.measured, kept.low, kept.high) == pytest.approx((0.0196, -0.0204, 0.0566), abs=1e-4)


def test_a_cure_that_brings_what_was_estimated_stands_on_the_line() -> None:
    run = documents.resnet()
    exactly = Trial(fix="inference-mode", verdict="verified", speedup=1 / 0.96, low=1.03, high=1.06, cures=("OPT004",))
    drawn = plot(promises(replace(run, trials=(exactly,))))

    assert drawn is not None
    (point,) = drawn.points
    diagonal = drawn.lines[0]
    assert point.y == pytest.approx(100 - point.x)
    assert (diagonal.y1, diagonal.y2) == pytest.approx((100 - diagonal.x1, 100 - diagonal.x2))


def test_what_was_only_estimated_or_only_measured_is_in_no_plot() -> None:
    assert promises(documents.gpu_trace()) == ()
    assert plot(()) is None


def test_ops_stand_under_the_roof() -> None:
    drawn = roofline(documents.gpu_trace())

    assert drawn is not None
    slope, flat = drawn.lines
    product, addition = drawn.points
    assert flat.y1 == flat.y2 == ROOM  # 20 TFLOP/s are the highest of the plot
    assert (slope.x2, slope.y2) == (flat.x1, flat.y1)
    assert product.x > flat.x1  # 100 operations a byte; the ridge is at 20
    assert addition.x == ROOM  # a twelfth: the least of the plot
    assert ROOM < product.y < addition.y
    assert product.label == "aten::mm in float: 10.0 TFLOP/s, 50 % of what the device could (compute bound)"


def test_ops_without_known_peaks_have_no_roof() -> None:
    drawn = roofline(documents.resnet())

    assert drawn is not None
    assert drawn.lines == ()
    assert len(drawn.points) == 1


@pytest.mark.parametrize(
    ("lane", "label"),
    [
        ("thread 7 of process 7", "main thread"),
        ("thread 8 of process 7", "thread 8"),
        ("GPU 0 stream 7", "GPU 0 stream 7"),
        ("thread 8 of process 7 (autograd)", "thread 8 of process 7 (autograd)"),
    ],
)
def test_a_lane_has_a_name_in_the_figure_that_leaves_room_for_the_lane(lane: str, label: str) -> None:
    known = documents.resnet().timeline
    assert known is not None
    drawn = timeline.chart(replace(known, lanes=(replace(known.lanes[0], name=lane),)))

    assert f'"{label}"' in json.dumps(drawn.figure)
