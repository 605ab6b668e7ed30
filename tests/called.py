"""Programs for tests: a list of op calls, each with what it was called with and how long it, or its kernel, takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.trace import Trace
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132,
    "totalGlobalMem": 84_942_979_072,
}  # fmt: skip
"""3.35 TB/s by its data sheet."""
Call = tuple[Any, ...]
"""Name, nanoseconds, and the arguments as `observed.arguments` takes them."""
HEAD_NS = 1_000_000
CALL_NS = 10_000


def on_gpu(folder: Path, *calls: Call, **more: Any) -> Trace:
    """A step in which the GPU always has work: first a kernel of 1 ms, then the calls' kernels without a gap.

    Each op takes 10 µs of the host's time, which is long over when the GPU is done; a wait for the GPU ends the step.
    `more`: device, and kernel (the kernels' name).
    """
    built = TraceBuilder(devices=[more.get("device", H100)])
    end = 20_000 + HEAD_NS
    built.op("aten::cumsum", 10_000, 8_000).launch("scan", (12_000, 5_000), (20_000, HEAD_NS))
    for place, (name, kernel_ns, *given) in enumerate(calls):
        at = 20_000 + place * CALL_NS
        call_op(built, name, at, CALL_NS, given)
        if kernel_ns:
            built.launch(more.get("kernel", "elementwise"), (at + 3_000, 5_000), (end, kernel_ns))
        end += kernel_ns
    wait = 20_000 + len(calls) * CALL_NS + 1_000
    built.call("cudaDeviceSynchronize", wait, end - wait)
    return built.step(1, 0, end).trace(folder)


def on_cpu(folder: Path, *calls: Call, step_ns: int = 1_000_000, steps: int = 1) -> Trace:
    """Steps of a CPU program; the calls come one after the other, 1 µs apart."""
    built = TraceBuilder()
    for start in range(0, steps * step_ns, step_ns):
        at = start + 1_000
        for name, dur_ns, *given in calls:
            call_op(built, name, at, dur_ns, given)
            at += dur_ns + 1_000
        built.step(start // step_ns + 1, start, step_ns)
    return built.trace(folder)


def call_op(built: TraceBuilder, name: str, at: int, dur_ns: int, given: list[Any]) -> None:
    """One op; a cast or a copy to another layout has the copy inside that it makes."""
    built.op(name, at, dur_ns, **arguments(*given))
    if name in ("aten::to", "aten::contiguous", "aten::reshape", "aten::type_as"):
        built.op("aten::copy_", at + 1, dur_ns - 2, **arguments(given[0], given[0]))


def tensor(*dims: int, of: str = "float") -> tuple[list[int], str]:
    """A tensor among the arguments."""
    return list(dims), of


BF16 = "c10::BFloat16"
