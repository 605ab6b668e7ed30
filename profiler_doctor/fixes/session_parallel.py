"""Run branches of an ONNX graph side by side.

What it does: it sets `execution_mode` to ORT_PARALLEL with two threads between operators, so that operators that do
not wait for each other run at once.

When it applies: a `.onnx` file is the target, and this process may use more than one CPU. For graphs with wide
branches; a chain of operators only becomes slower. It has effect on the CPU provider alone.

How results may change: by rounding (5e-7 in float32).

Source: https://onnxruntime.ai/docs/performance/tune-performance/threading.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._session import of_graphs, with_settings


def _applies(machine: Machine) -> str | None:
    return of_graphs(machine) or ("there is one CPU to run on" if machine.cpus < 2 else None)


FIX = Fix(
    name="session-parallel",
    doc=__doc__,
    cures=(),
    snippet="""\
options = onnxruntime.SessionOptions()
options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
options.inter_op_num_threads = 2
""",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=1,
    clock="wall",
    applies=_applies,
    treat=with_settings(execution_mode="ORT_PARALLEL", inter_op_num_threads=2),
    of="onnx",
)
