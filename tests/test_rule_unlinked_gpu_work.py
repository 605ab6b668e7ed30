"""MSR002: some GPU work has no launch in the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.unlinked_gpu_work import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder


def work(folder: Path, unlinked: int, linked: int) -> Trace:
    built = TraceBuilder()
    for number in range(unlinked):
        built.gpu("earlier", number * 10_000, 2_000, correlation=90_000 + number)
    for number in range(unlinked, unlinked + linked):
        built.launch("kernel", (number * 10_000, 1_000), (number * 10_000 + 2_000, 3_000))
    return built.trace(folder)


def test_work_without_a_launch_is_counted(tmp_path: Path) -> None:
    [seen] = ask(RULE, work(tmp_path, unlinked=5, linked=15))

    assert seen.evidence == {"events": 5, "work": 20, "time_ns": 10_000}


@pytest.mark.parametrize(("unlinked", "found"), [(1, False), (2, True)])
def test_more_than_one_in_a_hundred_is_named(tmp_path: Path, unlinked: int, found: bool) -> None:
    assert bool(ask(RULE, work(tmp_path, unlinked, linked=100 - unlinked))) is found


def test_a_run_that_kept_to_the_cpu_has_no_gpu_work_to_miss(tmp_path: Path) -> None:
    assert ask(RULE, TraceBuilder().op("aten::add", 0, 1_000).trace(tmp_path)) == []
