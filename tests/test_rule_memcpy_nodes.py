"""ONX001: ONNX Runtime copies tensors between CPU and GPU in the middle of the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.reading import read
from profiler_doctor.rules.memcpy_nodes import RULE
from tests.asking import ask
from tests.ort_profile import profile
from tests.trace_builder import TraceBuilder


def test_the_copies_time_is_at_stake(tmp_path: Path) -> None:
    trace = profile(
        tmp_path,
        [("a", "MatMul", 70, "CUDA"), ("c0", "MemcpyToHost", 15, "CUDA"), ("c1", "MemcpyFromHost", 5, "CUDA")],
    )

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert finding.evidence["copies"] == 4  # two in each of the runs after the first
    assert finding.evidence["time_ns"] == 40_000
    assert finding.stake.share == pytest.approx(0.20)


def test_a_graph_without_copies_has_none(tmp_path: Path) -> None:
    assert ask(RULE, profile(tmp_path, [("a", "MatMul", 70, "CPU")])) == []


def test_an_op_of_that_name_in_another_kind_of_trace_is_something_else(tmp_path: Path) -> None:
    assert ask(RULE, TraceBuilder().step(0, 0, 900).op("MemcpyToHost", 10, 100).trace(tmp_path)) == []


def test_a_real_profile_of_one_device_has_none(shared: Path) -> None:
    assert ask(RULE, read(shared / "traces" / "ort_olive_profile.json.gz")) == []
