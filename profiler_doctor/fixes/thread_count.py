"""Use no more threads than there are CPUs to run them.

What it does: it caps the threads of one op at the CPUs this process may use (affinity and cgroup quota together), in
the environment and in every `torch.set_num_threads` call of the script.

When it applies: more threads are asked for than CPUs are granted. All of them wait for the slowest at the end of every
op, so a single one that has no CPU holds up all.

How results may change: by rounding, because sums are split into other parts.

Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from profiler_doctor.analyzer.kinds import Fix, Machine

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _applies(machine: Machine) -> str | None:
    if machine.threads is not None and machine.threads <= machine.cpus:
        return f"{machine.threads} threads are no more than the {machine.cpus} CPUs granted"
    return None


def _environment(machine: Machine) -> Mapping[str, str]:
    return {name: str(_capped(os.environ.get(name, ""), machine.cpus)) for name in VARIABLES}


def _capped(asked: str, cpus: int) -> int:
    return min(int(asked), cpus) if asked.isdigit() and int(asked) > 0 else cpus


@contextmanager
def _set_up(machine: Machine) -> Iterator[None]:
    import torch

    before, set_num_threads = torch.get_num_threads(), torch.set_num_threads

    def capped(nthreads: int) -> None:
        set_num_threads(min(nthreads, machine.cpus))

    capped(before)
    torch.set_num_threads = capped
    try:
        yield
    finally:
        torch.set_num_threads = set_num_threads
        set_num_threads(before)


FIX = Fix(
    name="thread-count",
    doc=__doc__,
    cures=("ENV001",),
    snippet="torch.set_num_threads(len(os.sched_getaffinity(0)))  # fewer, where a container's CPU quota is smaller\n",
    changes_numbers="by rounding",
    rank=1,
    clock="wall",
    applies=_applies,
    environment=_environment,
    set_up=_set_up,
)
