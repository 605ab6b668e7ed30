"""A correlation that comes back in one file, as in joined recordings, means the last call before the work."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.measures.device import gpu_work
from tests.trace_builder import TraceBuilder


def test_work_belongs_to_the_last_call_of_its_correlation_before_it(tmp_path: Path) -> None:
    built = TraceBuilder()
    for start in (0, 1_000_000, 2_000_000):
        built.call("cudaLaunchKernel", start, 5_000, correlation=7)
        built.gpu("kernel", start + 10_000, 20_000, correlation=7)

    table = gpu_work(built.trace(tmp_path))

    assert table["launch_start_ns"].tolist() == [0, 1_000_000, 2_000_000]


def test_work_that_seems_to_start_before_its_launch_still_belongs_to_it(tmp_path: Path) -> None:
    built = TraceBuilder().call("cudaLaunchKernel", 10_000, 5_000, correlation=7)

    table = gpu_work(built.gpu("kernel", 9_000, 20_000, correlation=7).trace(tmp_path))

    assert table["launch_start_ns"].tolist() == [10_000]
