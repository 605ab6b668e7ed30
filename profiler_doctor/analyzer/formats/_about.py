"""What a kineto file says about itself beside its events: devices, rank, base of its clock, and its age."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from profiler_doctor.analyzer.trace import Device

VENDORS = {"nvidia": ("nvidia", "tesla", "quadro", "geforce", "titan"), "amd": ("amd", "radeon"), "intel": ("intel",)}

RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE)


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
    """The rank in distributedInfo, else in the file's name (`rank3`, `worker_3`); None where neither tells."""
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict) and (rank := _int(distributed.get("rank"))) is not None:
        return rank
    found = RANK_IN_NAME.search(source.replace("\\", "/").rsplit("/", 1)[-1])
    return int(found.group(1)) if found else None


def base_of(metadata: Mapping[str, Any]) -> int:
    """baseTimeNanoseconds, 0 where times are absolute."""
    return _int(metadata.get("baseTimeNanoseconds")) or 0


MARKS = (
    ({"CPU functions", "CUDA functions", "cpu_to_cuda"}, "looks like the autograd profiler's own export (no kineto)"),
    ({"Operator"}, "looks like PyTorch 1.8-1.9"),
    ({"Kernel", "Runtime", "async_gpu"}, "looks like PyTorch 1.10-1.11"),
    ({"async_cpu_to_gpu", "Profiler Event Index", "Trace iteration"}, "looks like PyTorch 1.12-1.13"),
)
"""Categories and arguments that only one age wrote, and which."""
KINETO = {"cpu_op", "kernel", "cuda_runtime", "python_function", "user_annotation", "cuda_driver"}


def producer_of(keys: Sequence[str], written: Collection[object], fractions: bool) -> str:
    """A guess in words, "" where nothing tells; no trace holds its version.

    `keys` are the top-level keys in file order, `written` the categories, arguments and processes as they stand in the
    file, `fractions` whether any time has a fraction of a microsecond.
    """
    for marks, said in MARKS:
        if marks & set(written):
            return said
    if "baseTimeNanoseconds" in keys:
        return _by_base(keys)
    if KINETO & set(written):
        return "looks like a PyTorch nightly of spring 2024" if fractions else "looks like PyTorch 2.0-2.3"
    return ""


def _by_base(keys: Sequence[str]) -> str:
    if "traceEvents" in keys and keys.index("baseTimeNanoseconds") > keys.index("traceEvents"):
        return "looks like PyTorch 2.4-2.7"
    return "looks like PyTorch 2.11 or later" if "host_name" in keys else "looks like PyTorch 2.8 or later"


def _int(value: object) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
