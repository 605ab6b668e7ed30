"""Optimise an ONNX graph by what is true on every device alone.

What it does: it sets `graph_optimization_level` to ORT_ENABLE_BASIC: constants are folded and needless operators go,
but none are fused into ONNX Runtime's own.

When it applies: a `.onnx` file is the target; the level is ORT_ENABLE_ALL by itself. For graphs in which a fused
operator has slower code than the ones it stands for.

How results may change: by rounding (5e-7 in float32).

Source: https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._session import of_graphs, with_settings

FIX = Fix(
    name="session-basic",
    doc=__doc__,
    cures=(),
    snippet="""\
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
""",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=1,
    clock="wall",
    applies=of_graphs,
    treat=with_settings(graph_optimization_level="ORT_ENABLE_BASIC"),
    variant_of="session-extended",
    excludes="graph level",
    of="onnx",
)
