"""Small ONNX Runtime profiles made by hand: one run of the model after another, its nodes one behind the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from profiler_doctor.analyzer.reading import read
from profiler_doctor.analyzer.trace import Trace

Nodes = list[tuple[str, str, int, str]]
"""(name, operator, microseconds, provider without "ExecutionProvider")."""


def profile(folder: Path, nodes: Nodes, runs: int = 3, output_bytes: int = 1 << 20) -> Trace:
    """Each run holds the nodes and 10 us around them."""
    events: list[dict[str, Any]] = []
    now = 0
    for _ in range(runs):
        length = sum(us for _, _, us, _ in nodes) + 10
        events.append(_event("Session", "model_run", (now, length), {}))
        at = now + 5
        for name, operator, us, provider in nodes:
            arguments = {
                "op_name": operator,
                "provider": f"{provider}ExecutionProvider",
                "output_size": f"{output_bytes}",
            }
            events.append(_event("Node", f"{name}_kernel_time", (at, us), arguments))
            at += us
        now += length
    path = folder / "profile.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    return read(path)


def _event(category: str, name: str, times_us: tuple[int, int], arguments: dict[str, str]) -> dict[str, Any]:
    start, duration = times_us
    base = {"cat": category, "pid": 7, "tid": 7, "ph": "X", "name": name}
    return {**base, "ts": start, "dur": duration, "args": arguments}
