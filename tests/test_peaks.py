"""Which board a device is, and what it can do: known from all it says of itself, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_doctor.analyzer.measures.peaks import boards, devices, peak_of
from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Device
from tests.trace_builder import TraceBuilder

H100 = Device(id=0, name="NVIDIA H100 80GB HBM3", memory_bytes=85_018_279_936, multiprocessors=132)
KNOWN = [
    (H100, 3350e9, 989.4e12),
    (Device(0, "NVIDIA A100-SXM4-40GB", (8, 0), 108, 42_298_834_944), 1555e9, 312e12),
    (Device(0, "NVIDIA A100-SXM4-80GB", (8, 0), 108, 85_198_045_184), 2039e9, 312e12),
    (Device(0, "NVIDIA A100 80GB PCIe", (8, 0), 108, 84_974_239_744), 1935e9, 312e12),
    (Device(0, "AMD Instinct MI300X", (9, 4), 304, 206_141_652_992), 5300e9, 1307.4e12),
    (Device(0, "NVIDIA B200", (10, 0), 148, 191_503_138_816), 8000e9, 2250e12),
]
UNKNOWN = [
    Device(0, "NVIDIA H100", (9, 0), 132, 102_085_492_736),
    Device(0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0), 14, 5_100_273_664),
    Device(0, "NVIDIA A100-SXM4-40GB MIG 7g.40gb", (8, 0), 108, 42_298_834_944),
    Device(0, "AMD Instinct MI300X", (9, 4), 38, 206_141_652_992),
    Device(0, "AMD Radeon Graphics", (9, 0), 104, 68_702_699_520),
    Device(0, "NVIDIA H100 80GB HBM3", (9, 0), None, 85_018_279_936),
    Device(0, "", (9, 4), 304, 206_141_652_992),
]


@pytest.mark.parametrize(("device", "bytes_per_s", "bf16"), KNOWN)
def test_a_board_is_known_by_name_memory_and_units(device: Device, bytes_per_s: float, bf16: float) -> None:
    peak = peak_of(device)

    assert peak is not None
    assert peak.bytes_per_s == bytes_per_s
    assert peak.flops_per_s("bf16", products=True) == pytest.approx(bf16)


@pytest.mark.parametrize("device", UNKNOWN)
def test_what_does_not_fit_a_board_in_everything_is_not_guessed(device: Device) -> None:
    assert peak_of(device) is None


def test_a_type_without_a_matrix_unit_is_as_fast_as_its_vectors_and_an_unknown_one_is_nothing() -> None:
    peak = peak_of(H100)

    assert peak is not None
    assert peak.flops_per_s("fp32", products=True) == pytest.approx(67e12)
    assert peak.flops_per_s("fp64", products=False) == pytest.approx(34e12)
    assert peak.flops_per_s("fp4", products=True) is None


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.peak.board)
def test_every_board_has_a_source_and_numbers_in_a_sane_order(board: object) -> None:
    peak = board.peak  # type: ignore[attr-defined]  # pytest's parameters have no type
    narrow_first = [rate for kind in ("fp8", "fp16", "tf32", "fp32") if (rate := peak.flops_per_s(kind, True))]

    assert len(peak.source) > 10
    assert 2e11 < peak.bytes_per_s < 2e13
    assert narrow_first == sorted(narrow_first, reverse=True)
    assert peak.flops_per_s("fp32", products=False) >= 5e12


def test_the_devices_of_a_trace_are_listed_with_or_without_peaks(tmp_path: Path) -> None:
    known = {"id": 0, "name": H100.name, "totalGlobalMem": H100.memory_bytes, "numSms": 132}
    builder = TraceBuilder(devices=[known, {"id": 1, "name": "Some GPU"}]).op("aten::mm", 0, 1)

    table = devices(builder.trace(tmp_path))

    assert table["board"].tolist() == ["H100 SXM5", ""]
    assert table["multiprocessors"].tolist() == [132, -1]
    assert table["bytes_per_s"].isna().tolist() == [False, True]


def test_boards_of_real_traces_are_known_where_their_names_are(shared: Path) -> None:
    def board(name: str) -> set[str]:
        return set(devices(read(shared / "traces" / f"{name}.json.gz"))["board"])

    assert board("tracelens_mi300_vit") == {"Instinct MI300X"}
    assert board("param_dlrm_8ranks/rank0") == {"V100 SXM2"}
    assert board("hta_a100_nccl_resnet") == {"A100 40 GB"}
    assert board("hta_mi250_minitoy") == {""}
    assert board("kineto_docs_graph_before") == {""}
