"""Let torch compile the model and search for the fastest kernels.

What it does: `torch.compile` in its mode "max-autotune": candidates for matrix products and convolutions are built and
timed, and on a GPU the result is recorded as CUDA graphs.

When it applies: as for `compile`, where a program runs long enough to earn minutes of compiling back.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._compiling import can_compile, compiled

FIX = Fix(
    name="compile-max-autotune",
    doc=__doc__,
    cures=("LCH001",),
    snippet='model = torch.compile(model, mode="max-autotune")\n',
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK + 1,
    applies=can_compile,
    treat=partial(compiled, mode="max-autotune"),
    variant_of="compile",
    excludes=ENGINE,
)
