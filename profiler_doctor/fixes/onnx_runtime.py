"""Run the model in ONNX Runtime.

What it does: it exports the model with torch's dynamo-based ONNX exporter, and runs the graph in a session with all
graph optimisations, on as many threads as torch uses. On a GPU it asks for TensorRT (its engines are kept for the next
time), then CUDA, then the CPU, and binds inputs and outputs where they are; the report says which of them really ran.

When it applies: inference, with the packages onnx, onnxruntime and onnxscript installed. A model that branches on data
cannot be exported. Counters in Python and changes of inputs or buffers are lost: the trial watches for that. Each shape
of inputs gets a session of its own here; your own code would export with dynamic shapes. Forward hooks are not run.

How results may change: by rounding (up to 5e-7 in float32); dropout that is on draws other random numbers. Weights that
change later do not reach the graph.

Source: https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import COMPILER_RANK, ENGINE, Fix
from profiler_doctor.fixes._onnx import can_run, in_session

FIX = Fix(
    name="onnx-runtime",
    doc=__doc__,
    cures=("LCH001", "LCH002", "FUS005", "LAY004"),
    snippet="""\
torch.onnx.export(model.eval(), example_inputs, "model.onnx", dynamo=True)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = torch.get_num_threads()
session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
outputs = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})
""",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=COMPILER_RANK,
    applies=can_run,
    treat=in_session,
    freezes=True,
    excludes=ENGINE,
)
