"""Run an ONNX graph on one thread.

What it does: it sets `intra_op_num_threads` to 1, so that the thread that calls the session does all of the work.

When it applies: a `.onnx` file is the target, and its session has more than one thread. For small graphs, where handing
parts of an operator to other threads takes longer than computing them; and where several requests are served at once.

How results may change: sums may be added in another order (5e-7 in float32).

Source: https://onnxruntime.ai/docs/performance/tune-performance/threading.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._session import of_graphs, with_settings


def _applies(machine: Machine) -> str | None:
    return of_graphs(machine) or ("the session has one thread already" if machine.threads == 1 else None)


FIX = Fix(
    name="session-one-thread",
    doc=__doc__,
    cures=(),
    snippet="options = onnxruntime.SessionOptions()\noptions.intra_op_num_threads = 1\n",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=1,
    clock="wall",
    applies=_applies,
    treat=with_settings(intra_op_num_threads=1),
    excludes="session threads",
    of="onnx",
)
