"""What XLA's profiler (JAX, TensorFlow) calls a thing, whatever the file: lines, events and their details."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

DEVICE = re.compile(r"^/device:(?P<kind>[A-Za-z_]+):(?P<id>\d+)")
STREAM = re.compile(r"^Stream #(?P<id>\d+)")
"""The one kind of line of a GPU that holds what ran on it. The others show the same work again by op, module, step."""
OPS_LINE = "XLA Ops"
"""Where a device has no streams (TPU) this line holds its work."""
DERIVED = "xla_derived"
"""Our category for events of lines that repeat what another line holds."""
HOST_API = re.compile(r"^(?P<runtime>cuda[A-Z]|hip[A-Z])|^cu[A-Z][A-Za-z]*(?:_v\d+)?(?: \(|$)")
MARK = re.compile(r"^end: |^ThreadpoolListener::")
"""Ends of a flow from thread to thread; no time is spent in them."""
COPY = re.compile(r"^Memcpy(?P<source>[HDP])2(?P<target>[HDP])$")
KINDS = re.compile(r"kind_src:(?P<source>[\w ]+?) kind_dst:(?P<target>[\w ]+?)(?: |$)")
SIZE = re.compile(r"(?:^| )(?:size|num_bytes):(?P<bytes>\d+)")
MEMORY = re.compile(r"^Memory(?:Alloc|Free|Residency)")
NUMBER = re.compile(r"-?\d{1,18}")
SIZES = {"grid": re.compile(r"grid:(\d+),(\d+),(\d+)"), "block": re.compile(r"block:(\d+),(\d+),(\d+)")}
COUNTS = {"registers per thread": re.compile(r"regs:(\d+)"), "shared memory": re.compile(r"group_mem:(\d+)")}
DETAILS = ("memcpy_details", "memset_details", "kernel_details")
"""Stats whose text holds several numbers; see `details_of`."""
STEP = "step_num"
"""The stat that a StepTraceAnnotation has."""
ARGUMENTS = {"correlation_id": "correlation", "context_id": "context"}
"""Stat → argument in kineto's terms; every other stat keeps its name."""


def work_category(name: str) -> str:
    """The category of an event on a device's stream."""
    if name.startswith("Memcpy"):
        return "gpu_memcpy"
    if name.startswith(("Memset", "MemorySet")):
        return "gpu_memset"
    if name == "Synchronization":
        return "cuda_sync"
    return "xla_memory" if MEMORY.match(name) else "kernel"


def host_category(name: str) -> str:
    """The category of an event on a thread of the host. What the user named cannot be told from XLA's own regions."""
    if name.startswith("$"):
        return "python_function"
    if found := HOST_API.match(name):
        return "cuda_runtime" if found["runtime"] else "cuda_driver"
    if MARK.match(name):
        return "xla_flow"
    return "user_annotation" if name.startswith("NVTX:") else "cpu_op"


def work_name(name: str, details: str) -> str:
    """The name of device work in kineto's words: MemcpyH2D from pinned memory is "Memcpy HtoD (Pinned -> Device)"."""
    copy, kinds = COPY.match(name), KINDS.search(details)
    if copy is None:
        return name
    memories = f" ({kinds['source'].capitalize()} -> {kinds['target'].capitalize()})" if kinds else ""
    return f"Memcpy {copy['source']}to{copy['target']}{memories}"


def details_of(text: str) -> Mapping[str, object]:
    """What stands in the text of `memcpy_details`, `memset_details` or `kernel_details`."""
    found: dict[str, object] = {}
    if size := SIZE.search(text):
        found["bytes"] = int(size["bytes"])
    for name, pattern in SIZES.items():
        if dims := pattern.search(text):
            found[name] = json.dumps([int(number) for number in dims.groups()])
    for name, pattern in COUNTS.items():
        if number := pattern.search(text):
            found[name] = int(number[1])
    return found


def vendor_of(text: str) -> str:
    """The vendor as a Device names it."""
    return next((vendor for vendor in ("nvidia", "amd", "intel") if vendor in text.lower()), "")
