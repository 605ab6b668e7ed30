"""What the profilers of every age called a thing, in today's kineto terms."""

from __future__ import annotations

CATEGORIES = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "async": "ac2g",
    "async_gpu": "ac2g",
    "async_cpu_to_gpu": "ac2g",
    "cpu_to_cuda": "ac2g",
}
"""Category as written by PyTorch 1.8 to 1.13 → as written today. Every other category is kept as it is."""

ARGUMENTS = {
    "external id": "External id",
    "Profiler Event Index": "Ev Idx",
    "theoretical occupancy %": "est. achieved occupancy %",
    "Input dims": "Input Dims",
}
"""Argument names that were changed without a change of meaning."""

NUMBERS = frozenset(
    {
        "External id", "correlation", "stream", "device", "context", "bytes", "Ev Idx", "Sequence number",
        "Fwd thread id", "Python id", "Python parent id", "Python module id", "Bytes", "Addr", "Device Type",
        "Device Id", "Total Allocated", "Total Reserved", "memory bandwidth (GB/s)", "id",
    }
)  # fmt: skip
"""Arguments that are numbers whatever the file says: ROCm writes some as text, 1.8 wrote N/A for what it lacked."""

LEGACY_PROCESSES = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}
"""The pid of the autograd profiler's own export (no kineto), which writes no category → the category."""
