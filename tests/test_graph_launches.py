"""One launch, many kernels: what a captured graph put on the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.graphs import graph_launches, graphs
from profiler_doctor.analyzer.reading import read
from tests.trace_builder import TraceBuilder


def test_a_graphs_work_is_all_that_has_its_correlation(tmp_path: Path) -> None:
    builder = TraceBuilder().call("cudaGraphLaunch", 0, 20, 7).launch("eager", at=(30, 5), on_gpu=(90, 10))
    builder.gpu("a", 30, 10, 7).gpu("b", 45, 10, 7, stream=8).gpu("Memcpy DtoD (Device -> Device)", 60, 5, 7)

    row = graph_launches(builder.trace(tmp_path)).iloc[0]

    assert (row["kernels"], row["memcpys"], row["memsets"]) == (2, 1, 0)
    assert (row["work_ns"], row["work_start_ns"], row["work_end_ns"]) == (25, 30, 65)


def test_a_graph_that_the_profiler_did_not_look_into_has_no_work(tmp_path: Path) -> None:
    trace = TraceBuilder().call("cudaGraphLaunch", 0, 20, 7).trace(tmp_path)

    assert graph_launches(trace)[["kernels", "work_ns", "work_start_ns"]].to_numpy().tolist() == [[0, 0, -1]]


def test_launches_of_one_size_are_one_graph(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for number, kernels in enumerate((2, 2, 1)):
        builder.call("hipGraphLaunch", 100 * number, 20, number + 1)
        for place in range(kernels):
            builder.gpu("k", 100 * number + 30 + 10 * place, 5, number + 1)

    assert graphs(builder.trace(tmp_path)).to_numpy().tolist() == [[2, 0, 0, 2, 40, 20], [1, 0, 0, 1, 20, 5]]


@pytest.mark.parametrize(("name", "kernels"), [("sglang_decode", 544), ("vllm_graph", 421)])
def test_real_graphs_hold_as_many_kernels_as_share_their_launchs_correlation(
    shared: Path, name: str, kernels: int
) -> None:
    assert graph_launches(read(shared / "traces" / f"tracelens_mi300_{name}.json.gz"))["kernels"].tolist() == [kernels]
