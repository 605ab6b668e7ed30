"""Optimise an ONNX graph without changing layouts.

What it does: it sets `graph_optimization_level` to ORT_ENABLE_EXTENDED: operators are fused, but convolutions keep
their layout and no copies between layouts are put into the graph.

When it applies: a `.onnx` file is the target; the level is ORT_ENABLE_ALL by itself. For graphs in which these
copies, and convolutions of few channels that are padded to blocks, take more than the blocked convolutions give.

How results may change: by rounding (5e-7 in float32).

Source: https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._session import of_graphs, with_settings

FIX = Fix(
    name="session-extended",
    doc=__doc__,
    cures=(),
    snippet="""\
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
""",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=1,
    clock="wall",
    applies=of_graphs,
    treat=with_settings(graph_optimization_level="ORT_ENABLE_EXTENDED"),
    excludes="graph level",
    of="onnx",
)
