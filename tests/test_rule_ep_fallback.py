"""ONX002: part of an ONNX graph runs on the CPU although the session has a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.engine import examine
from profiler_doctor.analyzer.plugins import Found
from profiler_doctor.analyzer.reading import read
from profiler_doctor.rules.ep_fallback import RULE
from tests.asking import ask
from tests.ort_profile import profile


def test_nodes_on_the_cpu_beside_a_gpu_are_worth_their_time(tmp_path: Path) -> None:
    trace = profile(tmp_path, [("a", "MatMul", 60, "CUDA"), ("nms", "NonMaxSuppression", 30, "CPU")])

    [finding] = examine(trace, Found((RULE,))).outcomes[0].findings

    assert (finding.where.op, finding.where.module) == ("NonMaxSuppression", "nms")
    assert finding.evidence["share"] == pytest.approx(30 / 90)
    assert finding.stake.share == pytest.approx(0.30)


@pytest.mark.parametrize(("us", "found"), [(2, False), (3, True)])
def test_two_percent_of_the_nodes_time_is_left_alone(tmp_path: Path, us: int, found: bool) -> None:
    trace = profile(tmp_path, [("a", "MatMul", 100 - us, "CUDA"), ("n", "NonZero", us, "CPU")])

    assert bool(ask(RULE, trace)) is found


@pytest.mark.parametrize(("size", "found"), [(1024, False), (1025, True)])
def test_nodes_that_compute_shapes_belong_on_the_cpu(tmp_path: Path, size: int, found: bool) -> None:
    nodes = [("a", "MatMul", 60, "CUDA"), ("s", "Concat", 30, "CPU")]

    assert bool(ask(RULE, profile(tmp_path, nodes, output_bytes=size))) is found


def test_a_session_without_a_gpu_falls_back_from_nothing(tmp_path: Path, shared: Path) -> None:
    assert ask(RULE, profile(tmp_path, [("a", "MatMul", 60, "CPU")])) == []
    assert ask(RULE, read(shared / "traces" / "ort_olive_profile.json.gz")) == []
