"""The time that a step spends in data loaders, as our capture takes it without a profiler."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from profiler_doctor.analyzer.capture.child import loaders
from profiler_doctor.analyzer.capture.child.loaders import Loaders


class Slow(Dataset[int]):
    """Four samples, each of which takes 5 ns by the clock of these tests; or what another loader takes for one."""

    def __init__(self, clock: SimpleNamespace, inner: DataLoader[int] | None = None) -> None:
        self.clock, self.inner = clock, inner

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.clock.now += 5
        return index if self.inner is None else int(next(iter(self.inner))[0])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=0)
    made.perf_counter_ns = lambda: made.now
    monkeypatch.setattr(loaders, "time", made)
    return made


@pytest.fixture
def watched() -> Iterator[Loaders]:
    watching, kept = Loaders(torch), torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    undo = watching.install()
    yield watching
    for stop in undo:
        stop()
    torch.utils.data.dataloader._BaseDataLoaderIter.__next__ = kept  # type: ignore[method-assign]


def test_what_a_step_spends_in_loaders_is_told_step_by_step(watched: Loaders, clock: SimpleNamespace) -> None:
    data = DataLoader(Slow(clock), batch_size=2)
    watched.spent_ns()

    first = iter(data)
    next(first)
    clock.now += 1_000  # the step's own work
    assert watched.spent_ns() == 10
    list(data)
    assert watched.spent_ns() == 20
    assert watched.spent_ns() == 0


def test_a_loader_inside_of_another_counts_once(watched: Loaders, clock: SimpleNamespace) -> None:
    outer = DataLoader(Slow(clock, DataLoader(Slow(clock), batch_size=1)), batch_size=4)
    watched.spent_ns()

    next(iter(outer))

    assert watched.spent_ns() == 4 * (5 + 5)


def test_what_another_thread_fetches_costs_the_step_nothing(watched: Loaders, clock: SimpleNamespace) -> None:
    seen: list[Any] = []
    watched.spent_ns()

    thread = Thread(target=lambda: seen.extend(DataLoader(Slow(clock))))
    thread.start()
    thread.join()

    assert len(seen) == 4
    assert watched.spent_ns() == 0
