"""Run the model in ONNX Runtime without optimisations that change the layout of images.

What it does: as `onnx-runtime`, with the optimisation level "extended": nodes are fused, but convolutions keep the
layout of their inputs and outputs.

When it applies: as for `onnx-runtime`. It wins where the reorders that the highest level adds cost more than the faster
convolutions between them bring.

How results may change: by rounding (up to 5e-7 in float32). Weights that change later do not reach the graph.

Source: https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._onnx import can_run, in_session

FIX = Fix(
    name="onnx-runtime-extended",
    doc=__doc__,
    cures=("LAY004",),
    snippet="""\
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
""",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=COMPILER_RANK,
    applies=can_run,
    treat=partial(in_session, level="ORT_ENABLE_EXTENDED"),
    freezes=True,
    variant_of="onnx-runtime",
    excludes=ENGINE,
)
