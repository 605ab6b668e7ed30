"""Let the GPU memory that torch holds grow in place.

What it does: it sets the allocator's option `expandable_segments`, so that a tensor of a new size fits into memory that
is held already instead of asking the driver for more.

When it applies: shapes that change from step to step, and memory that is nearly full or in pieces.

How results may change: not at all.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._cuda import on_cuda

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The older name is read by all versions; where the user has set either, their other options stay."""
OPTION = "expandable_segments:True"


def _environment(_machine: Machine) -> Mapping[str, str]:
    name = next((name for name in VARIABLES if os.environ.get(name)), VARIABLES[0])
    others = [part for part in os.environ.get(name, "").split(",") if part and not part.startswith(OPTION[:19])]
    return {name: ",".join([*others, OPTION])}


FIX = Fix(
    name="expandable-segments",
    doc=__doc__,
    cures=("MEM001", "MEM002"),
    snippet='os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"  # before the first use of the GPU\n',
    changes_numbers="",
    rank=0,
    clock="wall",
    applies=on_cuda,
    environment=_environment,
)
