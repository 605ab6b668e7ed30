"""Give an ONNX graph a thread for every CPU it may use.

What it does: it sets `intra_op_num_threads` to the CPUs that this process may use, affinity and cgroup quota together.
By itself ONNX Runtime takes one for each core, counts no second hardware thread, and does not know of quotas.

When it applies: a `.onnx` file is the target, and the session's threads are not as many as the CPUs.

How results may change: sums may be added in another order (5e-7 in float32).

Source: https://onnxruntime.ai/docs/performance/tune-performance/threading.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.capture.processors import usable_cpus
from profiler_doctor.analyzer.kinds import Fix, Machine, Root
from profiler_doctor.fixes._session import in_session, of_graphs


def _applies(machine: Machine) -> str | None:
    enough = machine.threads == machine.cpus
    return of_graphs(machine) or (f"the session's threads are as many as the CPUs, {machine.cpus}" if enough else None)


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    yield in_session(root, {"intra_op_num_threads": usable_cpus()})


FIX = Fix(
    name="session-every-cpu",
    doc=__doc__,
    cures=("ENV001",),
    snippet="options = onnxruntime.SessionOptions()\noptions.intra_op_num_threads = len(os.sched_getaffinity(0))\n",
    changes_numbers="by rounding (5e-7 in float32)",
    rank=1,
    clock="wall",
    applies=_applies,
    treat=_treat,
    excludes="session threads",
    of="onnx",
)
