"""Small recordings of programs that load data, for the tests of the rules that judge it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.facts import LoaderFacts
from profiler_doctor.analyzer.trace import Trace
from tests.observed import arguments
from tests.trace_builder import TraceBuilder

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loader(**more: Any) -> LoaderFacts:
    """A loader of batches of 16 from tensors in memory, in the program's own process, made at line 9 of data.py."""
    usual: dict[str, Any] = {
        "dataset": "TensorDataset",
        "samples": 4096,
        "in_memory": True,
        "batch_size": 16,
        "workers": 0,
        "persistent": False,
        "own_collate": False,
        "iterators": 3,
        "file": "data.py",
        "line": 9,
    }
    return LoaderFacts(**(usual | more))


def picking_steps(folder: Path, fetch_ns: int = 300_000, more: str | None = None, row: int = 32) -> Trace:
    """Four steps of 1 ms; each fetches a batch of 16 rows of `row` numbers, and computes until 900 µs."""
    built = TraceBuilder()
    for start in range(0, 4_000_000, 1_000_000):
        built.step(start // 1_000_000, start, 1_000_000).annotation(SINGLE, start, fetch_ns)
        for place in range(16):
            picked = arguments(([4096, row], "float"), 0, place)
            built.op("aten::select", start + 1_000 + place * 3_000, 1_000, **picked)
            if more is not None:
                built.op(more, start + 2_500 + place * 3_000, 500)
        built.op("aten::stack", start + 60_000, 5_000)
        built.op("aten::mm", start + fetch_ns, 900_000 - fetch_ns)
    return built.trace(folder)
