"""Use no more threads than there are CPUs to run them.

What it does: it caps the threads of one op at the CPUs this process may use (affinity and cgroup quota together), in
the environment and in every `torch.set_num_threads` call of the script.

When it applies: more threads are asked for than CPUs are granted. All of them wait for the slowest at the end of every
op, so a single one that has no CPU holds up all.

How results may change: by rounding, because sums are split into other parts.

Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes import _threads


def _applies(machine: Machine) -> str | None:
    if machine.threads is not None and machine.threads <= machine.cpus:
        return f"{machine.threads} threads are no more than the {machine.cpus} CPUs granted"
    return None


FIX = Fix(
    name="thread-count",
    doc=__doc__,
    cures=("ENV001",),
    snippet="torch.set_num_threads(len(os.sched_getaffinity(0)))  # fewer, where a container's CPU quota is smaller\n",
    changes_numbers="by rounding",
    rank=1,
    clock="wall",
    excludes="threads",
    applies=_applies,
    environment=lambda machine: _threads.environment(machine.cpus),
    set_up=lambda machine: _threads.at_most(machine.cpus),
)
