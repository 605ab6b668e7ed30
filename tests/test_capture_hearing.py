"""When a run has gone on for long enough, and when a window is recorded for want of steps."""

from __future__ import annotations

import pytest

from profiler_doctor.analyzer.capture import hearing
from profiler_doctor.analyzer.capture.hearing import Hearing


class Told:
    """A child that writes down what it is told."""

    def __init__(self) -> None:
        self.letters = ""

    def command(self, letter: str) -> None:
        self.letters += letter


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(hearing.time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


WINDOW = {"say": "window", "file": "observe.json", "events": 9, "steps": 5}
STEPS = {"say": "source", "source": {"kind": "user", "pattern": [], "detail": 0, "words": "marks"}}


def asked(heard: Hearing, clock: Clock, seconds: range) -> tuple[str, list[str]]:
    """The letters sent and the reasons given while time passes."""
    child, reasons = Told(), []
    for now_s in seconds:
        clock.now_s = float(now_s)
        reasons.append(heard.verdict(child))  # type: ignore[arg-type]  # a stand-in
    return child.letters, reasons


def test_a_run_may_use_its_share_once_it_has_recorded_and_everything_until_then(clock: Clock) -> None:
    recorded, empty = Hearing(enough_s=30, end_s=100), Hearing(enough_s=30, end_s=100)
    recorded.hear(WINDOW)
    assert asked(recorded, clock, range(32, 36))[1] == ["", "", "budget", "budget"]
    assert asked(empty, clock, range(99, 102))[1] == ["", "", "budget"]


def test_steps_are_timed_for_some_seconds_even_after_a_late_recording(clock: Clock) -> None:
    late = Hearing(enough_s=30, end_s=100)
    clock.now_s = 60.0
    late.hear(WINDOW)
    assert asked(late, clock, range(64, 70))[1] == ["", "", "", "", "", "budget"]


def test_silence_is_counted_from_the_last_message(clock: Clock) -> None:
    heard = Hearing(enough_s=30, end_s=100, silence_s=5.0)
    clock.now_s = 10.0
    heard.hear({"say": "step", "index": 3})
    assert asked(heard, clock, range(14, 17))[1] == ["", "", "silence"]
    assert heard.steps == 4


def test_a_window_is_asked_for_until_it_begins_and_its_end_until_it_is_written(clock: Clock) -> None:
    heard = Hearing(enough_s=30, end_s=100, window_after_s=10.0)
    assert asked(heard, clock, range(20))[0] == ""  # torch has not been imported
    heard.hear({"say": "torch", "version": "2"})  # at 19 s
    assert asked(heard, clock, range(20, 32))[0] == "www"  # from 29 s on, the child being busy
    heard.hear({"say": "recording"})
    assert asked(heard, clock, range(32, 36))[0] == "sss"  # from 33 s on
    heard.hear({**WINDOW, "steps": 0})
    assert asked(heard, clock, range(36, 40))[0] == ""


def test_no_window_is_asked_for_where_steps_are_known(clock: Clock) -> None:
    heard = Hearing(enough_s=30, end_s=100, window_after_s=10.0)
    heard.hear({"say": "torch", "version": "2"})
    heard.hear(STEPS)
    assert asked(heard, clock, range(40))[0] == ""
    assert heard.source is not None
    assert heard.source.words == "marks"
