"""Training steps for tests: an optimizer's annotation with the ops that it calls."""

from __future__ import annotations

from pathlib import Path

from profiler_doctor.analyzer.trace import Trace
from tests.called import H100
from tests.trace_builder import TraceBuilder

OP_NS = 10_000
STEP_NS = 1_000_000


def on_cpu(folder: Path, annotation: str, *ops: tuple[str, int], steps: int = 1) -> Trace:
    """Steps of 1 ms on a CPU; each begins with the annotation, in which the ops (name, ns) follow each other."""
    built = TraceBuilder()
    for start in range(0, steps * STEP_NS, STEP_NS):
        at = start + 11_000
        for name, dur_ns in ops:
            built.op(name, at, dur_ns)
            built.op("aten::empty", at, dur_ns // 2)
            at += dur_ns
        built.annotation(annotation, start + 10_000, at - start)
        built.op("aten::cumsum", at + 20_000, 50_000)
        built.step(start // STEP_NS, start, STEP_NS)
    return built.trace(folder)


def on_gpu(folder: Path, annotation: str, *kernels: tuple[str, int]) -> Trace:
    """A step of 1 ms paced by the host: each op (name, ns of its kernel) takes 10 µs of the host's time."""
    built = TraceBuilder(devices=[H100]).step(1, 0, STEP_NS)
    for place, (name, kernel_ns) in enumerate(kernels):
        at = 20_000 + place * OP_NS
        built.op(name, at, OP_NS)
        built.launch(name, (at + 3_000, 5_000), (at + 11_000, kernel_ns))
    return built.annotation(annotation, 15_000, len(kernels) * OP_NS + 10_000).trace(folder)
