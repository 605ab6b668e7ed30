"""How close ops come to the device's peaks: times from the device work, peaks from the board, nothing from thin air."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler_doctor.analyzer.measures.fusion import Piece, Rates, fused_ns, unfused_ns
from profiler_doctor.analyzer.measures.roofline import op_costs, roofline
from profiler_doctor.analyzer.reading import read
from tests import plain_reference as plain
from tests.trace_builder import TraceBuilder

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_018_279_936, "numSms": 132}
BF16 = "c10::BFloat16"


def shapes(*dims: list[int], kind: str = BF16) -> dict[str, Any]:
    return {"Input Dims": list(dims), "Input type": [kind] * len(dims)}


def test_of_products_inside_each_other_the_innermost_counts(tmp_path: Path) -> None:
    outer, inner = shapes([64, 128], [32, 128], kind="float"), shapes([64, 128], [128, 32])
    builder = (
        TraceBuilder()
        .op("aten::linear", 0, 100, **outer)
        .op("aten::_to_copy", 10, 20, **shapes([64, 128], kind="float"))
    )
    builder.op("aten::mm", 50, 40, **inner).op("aten::copy_", 60, 5, **shapes([64, 32], [32]))

    table = op_costs(builder.trace(tmp_path))

    assert table["op"].tolist() == ["aten::_to_copy", "aten::mm"]
    assert table["type"].tolist() == ["float", BF16]
    assert table["flops"].tolist() == [64 * 128, 2 * 64 * 128 * 32]


def test_shapes_that_no_machine_could_work_on_have_no_cost(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 9, **shapes([1 << 40, 1 << 40], [1 << 40, 8]))
    builder.op("aten::mm", 10, 9, **shapes([1 << 24, 1 << 20], [1 << 20, 1 << 27])).op(
        "aten::add", 20, 9, **shapes([8], [8])
    )

    table = op_costs(builder.trace(tmp_path))

    assert table["op"].tolist() == ["aten::add"]


def test_the_roof_is_the_longer_one_of_computing_and_moving(tmp_path: Path) -> None:
    builder = TraceBuilder(devices=[H100]).op("aten::mm", 0, 100, **shapes([4096, 4096], [4096, 4096]))
    builder.launch("gemm", at=(10, 5), on_gpu=(100, 200_000))
    builder.op("aten::add", 200, 50, **shapes([1 << 20], [1 << 20])).launch("add", at=(210, 5), on_gpu=(300_000, 4000))

    table = roofline(builder.trace(tmp_path)).set_index("op")

    assert table["bound"].to_dict() == {"aten::mm": "compute", "aten::add": "memory"}
    assert table.loc["aten::mm", "roof_ns"] == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9)
    assert table.loc["aten::add", "roof_ns"] == pytest.approx(6 * 2**20 / 3350e9 * 1e9)
    assert table.loc["aten::add", "roof_share"] == pytest.approx(6 * 2**20 / 3350e9 * 1e9 / 4000)
    assert table.loc["aten::mm", "flops_per_s"] == pytest.approx(2 * 4096**3 / 200e-6)


def test_a_float_product_is_held_to_the_rate_that_its_kernel_works_at(tmp_path: Path) -> None:
    given = shapes([512, 512], [512, 512], kind="float")
    builder = TraceBuilder(devices=[H100]).op("aten::mm", 0, 20, **given).op("aten::mm", 50, 20, **given)
    builder.launch("ampere_sgemm_128x64_tn", at=(5, 2), on_gpu=(100, 9000))
    builder.launch("cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4", at=(55, 2), on_gpu=(10_000, 3000))

    table = roofline(builder.trace(tmp_path)).set_index("type")

    assert sorted(table.index) == ["float", "tf32"]
    assert table.loc["float", "roof_ns"] == pytest.approx(max(2 * 512**3 / 67e12, 12 * 512**2 / 3350e9) * 1e9)
    assert table.loc["tf32", "roof_ns"] == pytest.approx(max(2 * 512**3 / 494.7e12, 12 * 512**2 / 3350e9) * 1e9)


def test_a_device_without_known_peaks_has_rates_and_no_roof(tmp_path: Path) -> None:
    builder = TraceBuilder(devices=[{**H100, "name": "NVIDIA H100"}]).op("aten::mm", 0, 20, **shapes([8, 8], [8, 8]))

    row = roofline(builder.launch("gemm", at=(5, 2), on_gpu=(100, 1000)).trace(tmp_path)).iloc[0]

    assert row["flops_per_s"] == pytest.approx(2 * 8**3 / 1e-6)
    assert row[["roof_ns", "roof_share"]].isna().all()
    assert row["bound"] == ""


def test_copies_to_the_host_are_not_held_to_the_devices_memory(tmp_path: Path) -> None:
    builder = TraceBuilder(devices=[H100]).op("aten::copy_", 0, 20, **shapes([8], [8]))

    assert len(roofline(builder.launch("Memcpy DtoH (Device -> Pinned)", (5, 2), (100, 1000)).trace(tmp_path))) == 0


def test_on_a_cpu_the_ops_own_time_counts(tmp_path: Path) -> None:
    row = roofline(TraceBuilder().op("aten::mm", 0, 2000, **shapes([8, 8], [8, 8], kind="float")).trace(tmp_path)).iloc[
        0
    ]

    assert (row["device"], row["time_ns"], row["flops"]) == (-1, 2000, 1024)
    assert row["flops_per_s"] == pytest.approx(1024 / 2e-6)


def test_where_a_gpu_was_driven_and_not_recorded_no_rate_is_claimed(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 2000, **shapes([8, 8], [8, 8])).call("cudaLaunchKernel", 10, 5, 1)

    row = roofline(builder.trace(tmp_path)).iloc[0]

    assert row["time_ns"] == 0
    assert row[["flops_per_s", "bytes_per_s"]].isna().all()


@pytest.mark.parametrize("name", ["tracelens_h100_qwen05b", "tracelens_mi300_vit"])
def test_the_products_of_real_traces_add_up_as_a_plain_loop_has_them(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.json.gz"
    events, _ = plain.load(path)
    expected = {"aten::mm": 0, "aten::addmm": 0}
    for event in events:
        if event.get("ph") == "X" and event["name"] in expected:
            left, right = [dims for dims in event["args"]["Input Dims"] if len(dims) == 2][-2:]
            expected[event["name"]] += 2 * left[0] * left[1] * right[1]

    table = op_costs(read(path)).groupby("op")["flops"].sum()

    assert {name: int(table.get(name, 0)) for name in expected} == expected


def test_a_fused_chain_moves_only_what_comes_from_outside_and_leaves() -> None:
    """Three element-wise ops on 1 MB: 2 + 2 + 2 MB moved in pieces, 2 MB in one, one operation for each of 250 000."""
    chain = [Piece(bytes=2e6, flops=250_000)] * 3
    rates = Rates(bytes_per_s=1e12, flops_per_s=1e13)

    assert unfused_ns(chain, rates) == pytest.approx(3 * (2000 + 25))
    assert fused_ns(chain, 2e6, rates) == pytest.approx(2000 + 3 * 25)
