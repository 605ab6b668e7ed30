"""Let torch compile the model.

What it does: it hands the outermost module's call to `torch.compile` in its default mode. Chains of small ops become
single kernels, and the time Python and the dispatcher spend between ops goes away.

When it applies: the script does not compile the model already, and a C++ compiler is there (on a CPU, the generated
code is C++). It loses where a few large library calls (convolutions, matrix products) make up the step, where data
decides the control flow, and where every call has a new shape.

How results may change: by rounding, because fused ops add in another order (relative 1e-7 to 1e-6 in float32). Dropout
and other random numbers come from another generator. The first call takes seconds to minutes; the trial says after how
many calls that is paid back.

Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._compiling import can_compile, compiled

FIX = Fix(
    name="compile",
    doc=__doc__,
    cures=(
        "LCH001",
        "LCH002",
        "LCH003",
        "FUS001",
        "FUS002",
        "FUS003",
        "FUS004",
        "FUS005",
        "ATT001",
        "PRC003",
        "PYB006",
    ),
    snippet="model = torch.compile(model)\n",
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    excludes=ENGINE,
    applies=can_compile,
    treat=compiled,
)
