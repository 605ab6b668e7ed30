"""MSR004: a captured graph ran, and the trace holds only part of its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.reading import read
from profiler_doctor.rules.graph_under_recorded import RULE
from tests.asking import ask
from tests.trace_builder import TraceBuilder

US = 1000


def launched(*kernels: int, tail: bool = True) -> TraceBuilder:
    """Graph launches 1 ms apart with so many kernels each, and an ordinary kernel after the last."""
    built = TraceBuilder()
    for number, count in enumerate(kernels):
        at = number * 1000 * US
        built.call("cudaGraphLaunch", at, 20 * US, number + 1000)
        for place in range(count):
            built.gpu("k", at + (30 + 2 * place) * US, US, number + 1000)
    end = len(kernels) * 1000 * US
    return built.launch("last", (end, 5 * US), (end + 10 * US, 5 * US)) if tail else built


def test_launches_without_work_are_counted(tmp_path: Path) -> None:
    [seen] = ask(RULE, launched(0, 0, 100).trace(tmp_path))

    assert (seen.evidence["empty"], seen.evidence["short"]) == (2, 0)
    assert seen.grave


def test_launches_that_lack_some_kernels_of_their_graph_are_counted(tmp_path: Path) -> None:
    [seen] = ask(RULE, launched(100, 100, 97, 100).trace(tmp_path))

    assert (seen.evidence["empty"], seen.evidence["short"]) == (0, 1)


@pytest.mark.parametrize(
    "kernels",
    [(100, 100, 100), (100, 100, 50, 50), (100, 95), (100, 99, 100), (100, 100, 95, 95)],
    ids=["all equal", "two graphs", "one of each", "one percent", "two graphs of nearly one size"],
)
def test_different_graphs_and_whole_ones_are_well_recorded(tmp_path: Path, kernels: tuple[int, ...]) -> None:
    assert ask(RULE, launched(*kernels).trace(tmp_path)) == []


def test_a_launch_at_the_end_of_the_recording_is_cut_off_as_all_else(tmp_path: Path) -> None:
    assert ask(RULE, launched(100, 100, 0, tail=False).trace(tmp_path)) == []


def test_a_recording_without_graphs_has_nothing_to_lack(tmp_path: Path) -> None:
    assert ask(RULE, launched().trace(tmp_path)) == []


@pytest.mark.parametrize("name", ["sglang_decode", "vllm_graph"])
def test_a_real_graph_recorded_node_by_node_is_whole(shared: Path, name: str) -> None:
    assert ask(RULE, read(shared / "traces" / f"tracelens_mi300_{name}.json.gz")) == []
