"""The counters of GPU work, of real GPU traces, against what an independent script counted in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.measures.step_counts import DIRECTIONS, step_counts
from profiler_doctor.analyzer.measures.steps import steps
from profiler_doctor.analyzer.reading import read
from tests.conftest import SHARED

TRUTH: dict[str, Any] = json.loads((SHARED / "ground_truth.json").read_text()) if SHARED.is_dir() else {}
UNLINKED = ("tracelens_h100_qwen05b",)
"""436 of its kernels were launched before the recording began, and belong to no step."""
COPIES_THAT_BLOCK = {
    "hta_rec_rank0": 8,  # to pageable memory: they return when they are done
    "tracelens_mi300_sglang_decode": 1,  # hipMemcpyWithStream
    "hta_mi250_minitoy": 2,  # hipMemcpyWithStream
    "hta_a100_cupti_ranges": 1,  # cudaMemcpy
}
"""Read off the traces by eye."""


@pytest.mark.parametrize("name", TRUTH)
def test_launches_kernels_and_copied_bytes_are_those_of_the_recording(name: str, shared: Path) -> None:
    truth = TRUTH[name]

    found = step_counts(read(shared / "traces" / f"{name}.json.gz")).sum()

    assert found["launches"] == truth["launches"]
    assert found["graph_launches"] == sum(api["count"] for api in truth["graph_launches"].values())
    assert found["kernels"] == truth["kernels"] - (436 if name in UNLINKED else 0)
    for direction in DIRECTIONS:
        copied = sum(copy["bytes"] for kind, copy in truth["memcpy"].items() if f" {direction} " in kind)
        assert found[f"copied_bytes_{direction}"] == copied


@pytest.mark.parametrize("name", TRUTH)
def test_calls_that_block_are_counted_and_the_profilers_own_are_not(name: str, shared: Path) -> None:
    trace = read(shared / "traces" / f"{name}.json.gz")
    profilers = 1 if len(steps(trace)) and TRUTH[name]["sync_calls"] else 0  # as its last step is closed

    found = int(step_counts(trace)["syncs"].sum())

    assert found == TRUTH[name]["sync_calls"] - profilers + COPIES_THAT_BLOCK.get(name, 0)
