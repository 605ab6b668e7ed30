"""NVTX ranges: the script's own in our trace, ours in somebody else's. The real ones are in test_capture_record.py."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from profiler_doctor.analyzer.capture.child.ourranges import OurRanges
from profiler_doctor.analyzer.capture.child.ranges import Mirror


class Domain:
    """A domain that a tool listens to."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def start_range(self, message: str) -> str:
        self.said.append(f"+{message}")
        return message

    def end_range(self, started: str) -> None:
        self.said.append(f"-{started}")


class DummyDomain:
    """What the package gives where nobody listens."""


def nvtx_with(domain: object) -> ModuleType:
    module = ModuleType("nvtx")
    module.get_domain = lambda name: domain if name == "profiler-doctor" else None  # type: ignore[attr-defined]
    return module


def test_phases_and_steps_are_ranges_of_our_domain_each_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain()
    monkeypatch.setitem(sys.modules, "nvtx", nvtx_with(domain))
    ours = OurRanges(torch=None)
    ours.phase("warm-up")
    ours.step(3)
    ours.phase("record")
    ours.step(4)
    assert domain.said == ["+warm-up", "+step 3", "-warm-up", "+record", "-step 3", "+step 4"]


def test_nothing_is_called_where_no_tool_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", nvtx_with(DummyDomain()))
    ours = OurRanges(torch=None)
    ours.phase("warm-up")
    ours.step(3)


def test_without_the_package_torchs_own_nvtx_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain()
    monkeypatch.setitem(sys.modules, "nvtx", None)
    native = SimpleNamespace(rangeStartA=domain.start_range, rangeEnd=domain.end_range)
    ours = OurRanges(torch=SimpleNamespace(cuda=SimpleNamespace(nvtx=SimpleNamespace(_nvtx=native))))
    ours.step(1)
    ours.step(2)
    assert domain.said == ["+step 1", "-step 1", "+step 2"]


def test_a_range_that_began_before_the_recording_does_not_end_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, closed = Mirror(), []
    assert mirror.push("before") == 0
    mirror.open, mirror.close = str.upper, closed.append
    assert mirror.push("inside") == 1
    mirror.pop()
    mirror.pop()
    mirror.pop()  # one too many, as scripts do
    assert closed == ["INSIDE"]


def test_ranges_by_handle_may_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, closed = Mirror(), []
    mirror.open, mirror.close = str.upper, closed.append
    first, second = mirror.start("first"), mirror.start("second")
    mirror.end(first)
    mirror.end(second)
    mirror.end(second)
    assert closed == ["FIRST", "SECOND"]
