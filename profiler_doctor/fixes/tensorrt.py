"""Run the model as a TensorRT engine.

What it does: it exports the model to ONNX, lets TensorRT build an engine for this GPU and these shapes, and runs it on
torch's own memory and stream. Engines are kept by the model's hash, the GPU, the driver, the version of TensorRT and
the build options; one that was built for anything else is refused.

When it applies: inference on an NVIDIA GPU with the package tensorrt installed, of a model that can be exported.
Building takes minutes, once. Where the script was seen to use several shapes, one engine is built for the range from
the smallest to the largest size of each axis, with kernels chosen for the shapes of the first call; where the model
cannot be exported for a range, and outside of it, each shape gets an engine of its own. Never run on a GPU so far.

How results may change: by rounding, of TF32 where the GPU has it (up to 1e-3). Weights that change later do not reach
the engine.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/index.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._tensorrt import can_run, in_engine

FIX = Fix(
    name="tensorrt",
    doc=__doc__,
    cures=("LCH001", "FUS001", "FUS005"),
    snippet="""\
torch.onnx.export(model.eval(), example_inputs, "model.onnx", dynamo=True)
# trtexec --onnx=model.onnx --saveEngine=model.plan
""",
    changes_numbers="by rounding: up to 1e-3",
    rank=COMPILER_RANK + 1,
    tolerance=1e-3,
    applies=can_run,
    treat=in_engine,
    freezes=True,
    excludes=ENGINE,
)
