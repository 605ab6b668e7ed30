"""Run each op on one thread.

What it does: it caps the threads of one op at one, in the environment and in every `torch.set_num_threads` call of the
script.

When it applies: ops too small to be worth waking a second thread for, and machines whose CPUs are shared: at the end of
every op the threads wait for each other, and one that was just sent off its CPU holds up all. Large ops on a quiet
machine lose, by as much as there were threads.

How results may change: by rounding, because sums are no longer split.

Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes import _threads


def _applies(machine: Machine) -> str | None:
    return "each op runs on one thread already" if machine.threads == 1 else None


FIX = Fix(
    name="one-thread",
    doc=__doc__,
    cures=("ENV001",),
    snippet="torch.set_num_threads(1)\n",
    changes_numbers="by rounding",
    rank=1,
    clock="wall",
    excludes="threads",
    applies=_applies,
    environment=lambda machine: _threads.environment(1),  # noqa: ARG005  # the same on every machine
    set_up=lambda machine: _threads.at_most(1),  # noqa: ARG005
)
