"""What of the waits, the memory and the roofline stands in the document."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.measures.totals import tables
from profiler_doctor.analyzer.tables import MemoryRow, RooflineRow, SyncRow
from tests.called import H100
from tests.trace_builder import TraceBuilder

MM = {"Input Dims": [[1024, 512], [512, 256]], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": []}


def test_waits_are_summed_by_name_and_op_around_them(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::item", 0, 500)
    builder.call("cudaStreamSynchronize", 10, 100).call("cudaStreamSynchronize", 200, 250)
    builder.call("cudaStreamSynchronize", 1000, 300).call("cudaDeviceSynchronize", 2000, 40)

    found = tables(builder.trace(tmp_path), top=2)

    assert found.syncs == (
        SyncRow(name="cudaStreamSynchronize", op="aten::item", count=2, time_ns=350, longest_ns=250),
        SyncRow(name="cudaStreamSynchronize", op="", count=1, time_ns=300, longest_ns=300),
    )
    assert found.in_all["syncs"] == 3


def test_memory_is_told_by_device(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::empty", 0, 20)
    for at_ns, size, held in ((5, 512, 1512), (30, -512, 1000), (40, 100, 1100)):
        args = {"Bytes": size, "Addr": 1, "Device Type": 1, "Device Id": 0, "Total Allocated": held}
        event = {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": 100, "tid": 1}
        builder.events.append({**event, "ts": f"@{at_ns / 1000:.3f}@", "args": {**args, "Total Reserved": 4096}})

    found = tables(builder.trace(tmp_path), top=5).memory

    assert found == (
        MemoryRow(
            device="cuda:0",
            allocations=2,
            allocated_bytes=612,
            peak_bytes=1512,
            peak_op="aten::empty",
            reserved_bytes=4096,
        ),
    )


def test_an_op_stands_under_its_devices_roof(tmp_path: Path) -> None:
    builder = TraceBuilder(devices=[H100]).op("aten::mm", 0, 20_000, **MM)
    builder.launch("gemm", (1_000, 2_000), (5_000, 10_000))

    (row,) = tables(builder.trace(tmp_path), top=5).roofline

    assert isinstance(row, RooflineRow)
    assert (row.op, row.kind, row.calls, row.time_ns, row.flops) == ("aten::mm", "matmul", 1, 10_000, 268_435_456)
    assert row.bytes == 2 * (1024 * 512 + 512 * 256 + 1024 * 256)
    assert row.bound == "memory"  # 1.84 MB at 3.35 TB/s are 548 ns, 0.268 GFLOP at 989 TFLOP/s are 271 ns
    assert row.roof_ns == 548
    assert row.peak_bytes_per_s == 3.35e12


def test_without_known_peaks_the_row_has_no_roof(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 20_000, **MM).launch("gemm", (1_000, 2_000), (5_000, 10_000))

    (row,) = tables(builder.trace(tmp_path), top=5).roofline

    assert (row.roof_ns, row.peak_flops_per_s, row.peak_bytes_per_s, row.bound) == (None, None, None, "")
