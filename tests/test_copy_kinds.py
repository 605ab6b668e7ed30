"""The copies of each kind: their bytes, their speed, and what of them ran beside kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.copy_kinds import copy_kinds
from profiler_doctor.analyzer.reading import read
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder

HTOD = "Memcpy HtoD (Pinned -> Device)"


def test_a_kinds_speed_is_its_bytes_over_its_time(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu(HTOD, 0, 100, 1, bytes=1000).gpu(HTOD, 200, 300, 2, bytes=1000)

    row = copy_kinds(builder.trace(tmp_path)).iloc[0]

    assert (row["direction"], row["count"], row["bytes"], row["time_ns"]) == ("HtoD", 2, 2000, 400)
    assert row["bytes_per_s"] == pytest.approx(5e9)
    assert row["median_bytes_per_s"] == pytest.approx((1e10 + 1e10 / 3) / 2)


def test_copies_without_bytes_have_no_speed_and_do_not_slow_the_others(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu(HTOD, 0, 100, 1, bytes=1000).gpu(HTOD, 200, 900, 2)

    row = copy_kinds(builder.trace(tmp_path)).iloc[0]

    assert (row["bytes"], row["time_ns"]) == (1000, 1000)
    assert row["bytes_per_s"] == pytest.approx(1e10)


def test_a_copy_is_hidden_only_while_a_kernel_runs(tmp_path: Path) -> None:
    builder = TraceBuilder().gpu(HTOD, 0, 100, 1, bytes=10, stream=9).gpu("k", 40, 20, 2).gpu("k", 90, 50, 3)

    row = copy_kinds(builder.trace(tmp_path)).iloc[0]

    assert (row["overlapped_ns"], row["exposed_ns"]) == (30, 70)


@pytest.mark.parametrize("name", ["hta_rec_rank0", "tracelens_b200_vllm_eager", "hta_a100_alexnet"])
def test_real_copies_are_as_a_plain_count_has_them(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    events, _ = plain.load(path)
    expected = plain.totals(events)["copies"]
    spans = {"kernel": [], "gpu_memcpy": []}
    for event in events:
        if event.get("ph") == "X" and plain.category(event) in spans:
            start = plain.ns(event["ts"])
            spans[plain.category(event)].append((start, start + plain.ns(event["dur"])))

    table = copy_kinds(read(path))

    rows = zip(*(table[column].tolist() for column in ("count", "bytes", "time_ns")), strict=True)
    assert dict(zip(table["name"], rows, strict=True)) == expected
    busy = plain.covered(spans["kernel"])
    assert table["exposed_ns"].sum() == sum(
        plain.covered([span, *spans["kernel"]]) - busy for span in spans["gpu_memcpy"]
    )
