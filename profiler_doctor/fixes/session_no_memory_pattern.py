"""Let an ONNX graph allocate each tensor by itself.

What it does: it sets `enable_mem_pattern` to False: no block for all tensors of a run is planned from the run before.

When it applies: a `.onnx` file is the target. For graphs whose shapes change from run to run, where each new set of
shapes is planned anew.

How results may change: not at all.

Source: https://onnxruntime.ai/docs/performance/tune-performance/memory.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._session import of_graphs, with_settings

FIX = Fix(
    name="session-no-memory-pattern",
    doc=__doc__,
    cures=(),
    snippet="options = onnxruntime.SessionOptions()\noptions.enable_mem_pattern = False\n",
    changes_numbers="",
    rank=2,
    clock="wall",
    applies=of_graphs,
    treat=with_settings(enable_mem_pattern=False),
    of="onnx",
)
