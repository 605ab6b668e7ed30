"""Run the model as a TensorRT engine that may compute in 8 bits.

What it does: as `tensorrt`, with 8-bit integers allowed. An entropy calibrator shows the builder one call's own inputs,
so that it finds the range of each activation; the ranges are kept beside the engine. An engine that is kept has the
ranges of the run that built it. Never run on a GPU so far.

When it applies: as for `tensorrt`, with TensorRT 8 to 10. From TensorRT 11 on there are no calibrators: the graph has
to hold its own QuantizeLinear and DequantizeLinear nodes.

How results may change: by about 1e-2 and more. No trial accepts that for you: it says how far the answers are apart.
One batch is little to calibrate with: your own code should show some hundred samples, and evaluate afterwards.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration/tensorrt-10x-to-11x-python-api-reference.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._tensorrt import can_run, in_engine

FIX = Fix(
    name="tensorrt-int8",
    doc=__doc__,
    cures=(),
    snippet="""\
torch.onnx.export(model.eval(), example_inputs, "model.onnx", dynamo=True)
# trtexec --onnx=model.onnx --int8 --calib=calibration.cache --saveEngine=model.plan
""",
    changes_numbers="by 1e-2 and more: evaluate it on your own data",
    rank=COMPILER_RANK + 1,
    applies=can_run,
    treat=partial(in_engine, precision="INT8"),
    freezes=True,
    variant_of="tensorrt",
    excludes=ENGINE,
)
