"""Let the loader put batches into memory that the GPU can read by itself.

What it does: loaders are made with `pin_memory=True`: a thread copies each batch into page-locked memory, from
where the GPU fetches it without help and, with `non_blocking=True`, without the script waiting.

When it applies: batches that go to a GPU. Page-locked memory is taken from all other programs.

How results may change: not at all.

Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._loaders import loaders


def _applies(machine: Machine) -> str | None:
    return None if machine.device == "cuda" else "the work does not run on a CUDA GPU"


FIX = Fix(
    name="pin-memory",
    doc=__doc__,
    cures=("CPY001", "CPY002"),
    snippet="""\
loader = DataLoader(dataset, batch_size=64, pin_memory=True)
images = images.to("cuda", non_blocking=True)
""",
    changes_numbers="",
    rank=1,
    clock="wall",
    applies=_applies,
    set_up=lambda machine: loaders(lambda settings: {"pin_memory": True}),  # noqa: ARG005
)
