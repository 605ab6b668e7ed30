"""Run the model as a TensorRT engine that may compute in float16.

What it does: as `tensorrt`, with float16 allowed: the builder takes it for each layer where it is faster. TensorRT 11
and later have no such choice: there the model is exported under autocast, and the graph itself says what is float16.
Never run on a GPU so far.

When it applies: as for `tensorrt`, on a GPU with tensor cores, for a model whose activations stay below 65504.

How results may change: by float16's rounding, up to 1e-2. Compare what you care for by yourself.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration/tensorrt-10x-to-11x-python-api-patterns.html
"""

from __future__ import annotations

from functools import partial

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._tensorrt import can_run, in_engine

FIX = Fix(
    name="tensorrt-half",
    doc=__doc__,
    cures=("PRC002",),
    snippet="""\
torch.onnx.export(model.eval(), example_inputs, "model.onnx", dynamo=True)
# trtexec --onnx=model.onnx --fp16 --saveEngine=model.plan
""",
    changes_numbers="by float16's rounding: up to 1e-2",
    rank=COMPILER_RANK + 1,
    tolerance=1e-2,
    applies=can_run,
    treat=partial(in_engine, precision="FP16"),
    freezes=True,
    variant_of="tensorrt",
    excludes=ENGINE,
)
