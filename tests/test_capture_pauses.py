"""The garbage collector's pauses that count are the program's own."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from profiler_doctor.analyzer.capture.child.pauses import Pauses


class Cycle:
    """Only the collector can let go of it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def pauses() -> Iterator[Pauses]:
    enabled, heard, made = gc.isenabled(), gc.callbacks[:], Pauses()
    yield made
    gc.callbacks[:] = heard
    (gc.enable if enabled else gc.disable)()


def test_what_the_recording_left_is_collected_before_the_sum_begins(pauses: Pauses) -> None:
    gc.enable()
    left = weakref.ref(Cycle())

    pauses.sum_up()

    assert left() is None
    assert pauses.share() == 0


def test_a_collector_that_is_switched_off_is_left_so(pauses: Pauses) -> None:
    gc.disable()
    left = weakref.ref(Cycle())

    pauses.sum_up()

    assert left() is not None
    assert not gc.isenabled()


def test_later_collections_count(pauses: Pauses) -> None:
    pauses.sum_up()

    gc.collect()

    share = pauses.share()
    assert share is not None
    assert 0 < share <= 1
