"""Let torch compile the model once for all shapes.

What it does: `torch.compile(dynamic=True)`: sizes stay variables in the compiled code, so that inputs of a new length
need no compiling.

When it applies: inputs whose sizes differ from call to call. The code is less specialised: where sizes never change it
loses some of what compiling brings.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._compiling import can_compile, compiled

FIX = Fix(
    name="compile-dynamic",
    doc=__doc__,
    cures=("LCH001",),
    snippet="model = torch.compile(model, dynamic=True)\n",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    applies=can_compile,
    treat=partial(compiled, dynamic=True),
    variant_of="compile",
    excludes=ENGINE,
)
