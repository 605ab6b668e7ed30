"""Let torch compile the model and record it as CUDA graphs.

What it does: `torch.compile` in its mode "reduce-overhead": the compiled code is recorded once as CUDA graphs, and a
call replays them with a single launch each.

When it applies: a GPU that waits for its launches, and inputs of few shapes. On a CPU there is nothing to record. The
output of a call is overwritten by the next call: a script that keeps it must clone it.

How results may change: by rounding (relative 1e-7 to 1e-6 in float32). Dropout draws other random numbers.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._compiling import can_compile_on_gpu, compiled

FIX = Fix(
    name="compile-reduce-overhead",
    doc=__doc__,
    cures=("LCH001", "LCH002", "LCH003"),
    snippet='model = torch.compile(model, mode="reduce-overhead")\n',
    changes_numbers="by rounding (1e-7 to 1e-6 in float32); dropout draws other random numbers",
    rank=COMPILER_RANK,
    applies=can_compile_on_gpu,
    treat=partial(compiled, mode="reduce-overhead"),
    excludes=ENGINE,
)
