"""Programs of matrix products on a GPU, for the tests of rules on precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.trace import Trace
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108,
    "totalGlobalMem": 42_505_273_344,
}  # fmt: skip
"""19.5 TFLOPS in float32, 156 as TF32, 312 in half precision, 1555 GB/s."""
V100 = {
    "id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "numSms": 80,
    "totalGlobalMem": 16_945_512_448,
}  # fmt: skip


def products(folder: Path, kernel: str, *kernels_ns: int, **changes: Any) -> Trace:
    """A kernel of 1 ms, then `mm` of two matrices [size, size] each, whose kernels follow without a gap; then a wait.

    `changes`: device, kind (float), size (4096), other (name of a last product's kernel), op.
    """
    size, kind = changes.get("size", 4096), changes.get("kind", "float")
    built = TraceBuilder(devices=[changes.get("device", A100)])
    built.op("aten::cumsum", 1_000, 8_000).launch("scan", (2_000, 2_000), (10_000, 1_000_000))
    at, end = 20_000, 1_010_000
    names = [kernel] * len(kernels_ns) + ([changes["other"]] if "other" in changes else [])
    for name, dur_ns in zip(names, [*kernels_ns, 1_000], strict=False):
        built.op(changes.get("op", "aten::mm"), at, 9_000, **arguments(([size, size], kind), ([size, size], kind)))
        built.launch(name, (at + 2_000, 5_000), (end, dur_ns))
        at, end = at + 10_000, end + dur_ns
    return built.call("cudaDeviceSynchronize", at, end - at).step(1, 0, end).trace(folder)
