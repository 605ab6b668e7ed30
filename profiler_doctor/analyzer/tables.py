"""The rows of the tables that a diagnosis carries: one noun a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One kernel name in the table of kernels."""

    name: str
    count: int
    time_ns: int


@dataclass(frozen=True, kw_only=True)
class OpRow:
    """One op name in the table of ops; `self_ns` leaves out what its children took, `gpu_ns` is its kernels' time."""

    name: str
    count: int
    time_ns: int
    self_ns: int
    gpu_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class ModuleRow:
    """One module path in the table of modules: how many ops ran in it, and what it took with the modules inside it."""

    name: str
    ops: int
    time_ns: int
    """Host time."""
    gpu_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class SyncRow:
    """Blocking calls of one name under one op."""

    name: str
    op: str
    """The innermost op that was open; "" for none."""
    count: int
    time_ns: int
    longest_ns: int


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """What one device's allocator gave out while it was recorded."""

    device: str
    allocations: int
    allocated_bytes: int
    """Sum of the allocations."""
    peak_bytes: int
    """Most given out at once."""
    peak_op: str
    """The op that reached it; "" unknown."""
    reserved_bytes: int | None = None
    """Most that it held from the driver."""


@dataclass(frozen=True, kw_only=True)
class RooflineRow:
    """One op on one device in one element type: what it computed and moved, and what the device could do at most."""

    op: str
    kind: str
    type: str
    device: int
    """-1: the CPU."""
    calls: int
    time_ns: int
    flops: int
    bytes: int
    bound: str = ""
    """`compute` or `memory`; "" where the device's peaks are not known, then the rest is None too."""
    roof_ns: int | None = None
    """The time that the device needs at least."""
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The top rows of the tables; `profiler-doctor table` prints all."""

    kernels: tuple[KernelRow, ...] = ()
    ops: tuple[OpRow, ...] = ()
    modules: tuple[ModuleRow, ...] = ()
    """Only where the recording has Python stacks."""
    syncs: tuple[SyncRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    """Only where the recording has the allocators' events."""
    roofline: tuple[RooflineRow, ...] = ()
    """Only where the recording has shapes."""
    in_all: Mapping[str, int] = field(default_factory=dict)
    """Table → how many rows it has in all, the ones left out here too."""
