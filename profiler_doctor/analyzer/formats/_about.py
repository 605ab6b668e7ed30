"""What a kineto file says about itself beside its events: devices, rank, base of its clock, and its age."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from profiler_doctor.analyzer.trace import Device

VENDORS = {"nvidia": ("nvidia", "tesla", "quadro", "geforce", "titan"), "amd": ("amd", "radeon"), "intel": ("intel",)}


def devices_of(metadata: Mapping[str, Any]) -> tuple[Device, ...]:
    """The entries of deviceProperties (1.8: computeProperties); ids are as written, ROCm's are not its events'."""
    entries = metadata.get("deviceProperties", metadata.get("computeProperties"))
    amd = any(key.startswith(("hip_", "roctracer")) for key in metadata)
    if not isinstance(entries, list):
        return ()
    return tuple(_device(entry, amd) for entry in entries if isinstance(entry, dict))


def _device(entry: Mapping[str, Any], amd: bool) -> Device:
    name = str(entry.get("name", ""))
    major, minor = entry.get("computeMajor", entry.get("major")), entry.get("computeMinor", entry.get("minor"))
    vendor = next((who for who, marks in VENDORS.items() if any(mark in name.lower() for mark in marks)), "")
    return Device(
        id=_int(entry.get("id")) or 0,
        name=name,
        compute_capability=(major, minor) if isinstance(major, int) and isinstance(minor, int) else None,
        multiprocessors=_int(entry.get("numSms", entry.get("multiProcessorCount"))),
        memory_bytes=_int(entry.get("totalGlobalMem")),
        vendor=vendor or ("amd" if amd else ""),
    )


def rank_of(metadata: Mapping[str, Any], source: str) -> int | None:
    """The rank in distributedInfo, else in the file's name (`rank3`, `rank-3`, `worker_3`); None where neither tells."""
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict) and (rank := _int(distributed.get("rank"))) is not None:
        return rank
    found = re.search(
        r"(?:rank|worker)[-_ ]?(\d{1,6})(?!\d)", source.replace("\\", "/").rsplit("/", 1)[-1], re.IGNORECASE
    )
    return int(found.group(1)) if found else None


def base_of(metadata: Mapping[str, Any]) -> int:
    """baseTimeNanoseconds, 0 where times are absolute."""
    return _int(metadata.get("baseTimeNanoseconds")) or 0


def producer_of(metadata: Mapping[str, Any], marks: Collection[str], keys: Sequence[str], fractions: bool) -> str:
    """A guess in words. `marks` are categories and arguments as written, `keys` the top-level keys in file order.

    No trace holds its version; the markers are those that kineto's history shows.
    """
    if "CPU functions" in marks:
        return "looks like the autograd profiler's own export (no kineto)"
    if "Operator" in marks:
        return "looks like PyTorch 1.8-1.9"
    if marks & {"Kernel", "async_gpu"} if isinstance(marks, set) else False:
        return "looks like PyTorch 1.10-1.11"
    if "async_cpu_to_gpu" in marks or "Profiler Event Index" in marks or "Trace iteration" in marks:
        return "looks like PyTorch 1.12-1.13"
    if "baseTimeNanoseconds" in metadata:
        return _by_base(metadata, keys)
    if "schemaVersion" in metadata or "deviceProperties" in metadata or marks:
        return "looks like a PyTorch nightly of spring 2024" if fractions else "looks like PyTorch 2.0-2.3"
    return ""


def _by_base(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    before = "traceEvents" in keys and list(keys).index("baseTimeNanoseconds") < list(keys).index("traceEvents")
    if "host_name" in metadata and before:
        return "looks like PyTorch 2.11 or later"
    return "looks like PyTorch 2.8 or later" if before else "looks like PyTorch 2.4-2.7"


def _int(value: object) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
