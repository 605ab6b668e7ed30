"""Damaged traces end as a trace whose damage is counted, or in one sentence: 500 of them (`make fuzz` reads 10,000)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz_reading import fuzz, made
from tests.mutations import seeds

pytestmark = pytest.mark.usefixtures("reader")
MUTATIONS = 500
PARTS = 5


@pytest.mark.parametrize("part", range(PARTS))
def test_no_mutated_trace_breaks_hangs_or_fills_the_memory(part: int, shared: Path, tmp_path: Path) -> None:
    count = MUTATIONS // PARTS
    tally = fuzz(first_seed=part * count + 1, count=count, folder=tmp_path)
    assert tally.broken == []
    assert tally.kinds["read"] + tally.kinds["refused"] == count
    assert tally.kinds["read"] > count / 2  # most damage is read around
    assert tally.notes["EVENTS-DROPPED"] and tally.notes["EVENTS-MENDED"]  # and counted


def test_a_seed_makes_the_same_file_again(shared: Path) -> None:
    traces = seeds(shared / "traces")
    assert made(7, traces) == made(7, traces)
    assert made(7, traces) != made(8, traces)
