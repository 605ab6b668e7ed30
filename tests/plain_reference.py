"""What a chrome trace holds, worked out the plain way: json, Decimal, loops. None of the program's own reader."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

TODAY = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "async": "ac2g",
    "async_gpu": "ac2g",
    "async_cpu_to_gpu": "ac2g",
}
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
GRAPH = re.compile("GraphLaunch")
LAUNCH = re.compile("LaunchKernel|LaunchCooperativeKernel")


def load(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events in file order, and everything around them."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(text, parse_float=Decimal)
    if isinstance(document, list):
        return document, {}
    return document.pop("traceEvents"), document


def ns(microseconds: int | Decimal | None) -> int:
    """Exact nanoseconds; -1 for none."""
    if microseconds is None:
        return -1
    value = Decimal(microseconds) * 1000
    assert value == int(value)
    return int(value)


def category(event: dict[str, Any]) -> str:
    return TODAY.get(event.get("cat", ""), event.get("cat", ""))


def covered(intervals: list[tuple[int, int]]) -> int:
    """The length of the union, by walking the intervals in order of start."""
    total, reach = 0, None
    for start, end in sorted(intervals):
        if reach is None or start > reach:
            total, reach = total + end - start, end
        elif end > reach:
            total, reach = total + end - reach, end
    return total


def totals(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers that the document's `totals` must give."""
    work: dict[str, list[dict[str, Any]]] = defaultdict(list)
    calls = []
    for event in events:
        if event.get("ph") == "X" and category(event) in ON_DEVICE:
            work[str(event.get("args", {}).get("device", event["pid"]))].append(event)
        elif event.get("ph") == "X" and category(event) in CALLS:
            calls.append(event)
    syncs = [event for event in calls if "Synchronize" in event["name"]]
    return {
        "events": len(events),
        "devices": {device: _device(on_it) for device, on_it in work.items()},
        "kernel_time_ns": sum(ns(event["dur"]) for on_it in work.values() for event in on_it if _kernel(event)),
        "launches": sum(bool(LAUNCH.search(event["name"])) for event in calls),
        "graph_launches": sum(bool(GRAPH.search(event["name"])) for event in calls),
        "copies": _copies([event for on_it in work.values() for event in on_it]),
        "syncs": (len(syncs), sum(ns(event["dur"]) for event in syncs)),
    }


def _kernel(event: dict[str, Any]) -> bool:
    return category(event) == "kernel"


def _device(events: list[dict[str, Any]]) -> dict[str, int]:
    spans = [(ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])) for event in events]
    kernels = [span for span, event in zip(spans, events, strict=True) if _kernel(event)]
    span = max(end for _, end in spans) - min(start for start, _ in spans)
    busy = covered(spans)
    return {
        "span_ns": span,
        "busy_ns": busy,
        "busy_kernels_ns": covered(kernels),
        "idle_ns": span - busy,
        "kernels": len(kernels),
    }


def _copies(events: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for event in events:
        if category(event) == "gpu_memcpy":
            count, size, time = found.get(event["name"], (0, 0, 0))
            found[event["name"]] = (count + 1, size + int(event["args"].get("bytes", 0)), time + ns(event["dur"]))
    return found
