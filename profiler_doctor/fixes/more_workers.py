"""Let other processes prepare the batches.

What it does: loaders without workers get one for each CPU but one (at least one), so that a batch is prepared while the
model works on the one before.

When it applies: preparing a batch (decoding, augmenting, reading) takes long against sending it from one process to
another, and CPUs are free. Small samples that lie in memory already lose.

How results may change: order and batches stay the same; random augmentations draw other numbers, because each worker
has a seed of its own.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from profiler_doctor.analyzer.kinds import Fix, Machine
from profiler_doctor.fixes._loaders import Settings, loaders


def _applies(machine: Machine) -> str | None:
    return None if machine.cpus > 1 else "there is one CPU only, and the model needs it"


def _set_up(machine: Machine) -> AbstractContextManager[None]:
    workers = max(1, machine.cpus - 1)

    def more(settings: Settings) -> Settings:
        return {} if settings["num_workers"] else {"num_workers": workers, "persistent_workers": True}

    return loaders(more)


FIX = Fix(
    name="more-workers",
    doc=__doc__,
    cures=("DAT001",),
    snippet="loader = DataLoader(dataset, batch_size=64, num_workers=2, persistent_workers=True)\n",
    changes_numbers="random augmentations draw other numbers",
    draws_otherwise=True,
    rank=3,
    clock="wall",
    applies=_applies,
    set_up=_set_up,
    excludes="workers",
)
