"""PYB003: an op works on CPU tensors in the middle of a GPU's step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.replay import stake_of
from profiler_doctor.analyzer.trace import Trace
from profiler_doctor.rules.cpu_op_on_gpu_path import RULE
from tests.asking import ask
from tests.called import H100
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

X = ([64, 64], "float")


def step(folder: Path, op_ns: int = 300_000, **changes: Any) -> Trace:
    """A kernel, an op of `op_ns` that launches nothing, and another kernel; the first one takes `first_ns` (20 µs)."""
    built = TraceBuilder(devices=[H100]).step(1, 0, 1_000_000)
    built.op("aten::mm", 8_000, 8_000, **arguments(X, X)).launch(
        "first", (10_000, 5_000), (20_000, changes.get("first_ns", 20_000))
    )
    if "around" in changes:
        built.annotation(changes["around"], 40_000, op_ns + 20_000)
    if "inside" in changes:
        built.call(changes["inside"], 60_000, 10_000)
    built.op(changes.get("name", "aten::sort"), 50_000, op_ns, **arguments(changes.get("given", X)))
    if changes.get("last", True):
        at = max(50_000 + op_ns + 10_000, 0)
        built.launch("second", (at, 5_000), (max(at + 10_000, 20_000 + changes.get("first_ns", 0)), 20_000))
    return built.trace(folder)


@pytest.mark.parametrize("name", ["aten::sort", "aten::mul", "aten::bmm", "aten::sum", "aten::randperm"])
def test_an_op_that_keeps_the_gpu_waiting_is_found_and_its_time_is_at_stake(tmp_path: Path, name: str) -> None:
    trace = step(tmp_path, name=name)

    [seen] = ask(RULE, trace)

    assert seen.message.startswith(f"1 ops per step ({name.removeprefix('aten::')}) run on the CPU while the GPU waits")
    assert seen.evidence["idle_ns"] == 300_000
    assert seen.edit is not None
    assert stake_of(trace, [seen.edit]).ns_per_step == 300_000


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "aten::view"},
        {"name": "aten::empty"},
        {"name": "aten::result_type"},
        {"name": "my::op"},
        {"given": ([], "float")},
        {"given": ([1], "float")},
        {"inside": "cudaMalloc"},
        {"around": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
        {"first_ns": 400_000},
        {"last": False},
    ],
    ids=str,
)
def test_what_does_not_compute_on_a_cpu_or_does_not_matter_is_left_in_peace(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert ask(RULE, step(tmp_path, **changes)) == []


@pytest.mark.parametrize(("op_ns", "found"), [(49_000, False), (50_000, True)])
def test_short_ops_are_dispatch(tmp_path: Path, op_ns: int, found: bool) -> None:
    assert bool(ask(RULE, step(tmp_path, op_ns))) is found
