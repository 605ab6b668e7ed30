"""Let cuDNN try its algorithms for each convolution and keep the fastest.

What it does: it sets `torch.backends.cudnn.benchmark`, so that the first call with each shape times the candidates.

When it applies: convolutions on a GPU whose inputs keep their shapes. With ever new shapes it measures all the time.

How results may change: by rounding, and from run to run, as another algorithm may be chosen.

Source: https://docs.pytorch.org/docs/stable/backends.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._cuda import on_cuda


@contextmanager
def _set_up(_machine: Machine) -> Iterator[None]:
    import torch

    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, True
    try:
        yield
    finally:
        cudnn.benchmark = before


FIX = Fix(
    name="cudnn-benchmark",
    doc=__doc__,
    cures=("LAY001", "LAY002"),
    snippet="torch.backends.cudnn.benchmark = True\n",
    changes_numbers="by rounding, and from run to run",
    rank=1,
    applies=on_cuda,
    set_up=_set_up,
)
