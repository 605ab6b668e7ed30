"""Run an ONNX graph on the best providers that are installed.

What it does: it asks for every provider that ONNX Runtime has here, TensorRT, CUDA and other accelerators before the
CPU; each takes the nodes that it knows and leaves the rest to the next. The report says which of them really ran.

When it applies: a `.onnx` file is the target, and this build of ONNX Runtime has a provider beyond those that the
untreated session asks for (CUDA where it is there, and the CPU).

How results may change: by rounding (1e-3 where a GPU uses tf32 or half precision).

Source: https://onnxruntime.ai/docs/execution-providers/
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import COMPILER_RANK, Fix, Machine
from profiler_doctor.fixes._session import of_graphs, with_settings

BEYOND = (
    "TensorrtExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "OpenVINOExecutionProvider",
    "DnnlExecutionProvider",
    "XnnpackExecutionProvider",
)
"""What the untreated session does not ask for."""
USUAL = ("CUDAExecutionProvider", "CPUExecutionProvider")


def _applies(machine: Machine) -> str | None:
    nothing = not machine.onnx_providers.intersection(BEYOND)
    return of_graphs(machine) or ("this build of ONNX Runtime has no further provider" if nothing else None)


FIX = Fix(
    name="session-providers",
    doc=__doc__,
    cures=("ONX002",),
    snippet="""\
session = onnxruntime.InferenceSession(
    "model.onnx", providers=["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
)
session.get_providers()  # those that were there
""",
    changes_numbers="by rounding (1e-3 on a GPU)",
    rank=COMPILER_RANK,
    clock="wall",
    applies=_applies,
    treat=with_settings(providers=(*BEYOND, *USUAL)),
    of="onnx",
)
