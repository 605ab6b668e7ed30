"""Let tensor cores compute float32 products with 10 bits of mantissa.

What it does: matrix products (`set_float32_matmul_precision("high")`) and convolutions of float32 tensors run in TF32,
which tensor cores multiply several times as fast.

When it applies: an NVIDIA GPU from Ampere on, whose time goes into large float32 products.

How results may change: by TF32's rounding, up to 1e-3.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from profiler_doctor.analyzer.kinds import Fix, Machine, Unsuitable
from profiler_doctor.fixes._cuda import on_cuda

AMPERE = (8, 0)


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < AMPERE:
        raise Unsuitable("the GPU has no TF32: that begins with compute capability 8.0")
    cudnn = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        cudnn.allow_tf32 = before[1]


FIX = Fix(
    name="tf32",
    doc=__doc__,
    cures=("PRC001",),
    snippet='torch.set_float32_matmul_precision("high")\ntorch.backends.cudnn.allow_tf32 = True\n',
    changes_numbers="by TF32's rounding: up to 1e-3",
    rank=0,
    tolerance=1e-3,
    applies=on_cuda,
    set_up=_set_up,
    excludes="precision",
)
