"""Prepare the batches in the process that uses them.

What it does: loaders with workers get none: nothing is sent from one process to another, and no process is started at
the beginning of an epoch.

When it applies: samples that lie in memory already and cost next to nothing to fetch, and epochs so short that starting
workers is most of them.

How results may change: order and batches stay the same; random augmentations draw other numbers.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._loaders import Settings, loaders

NONE = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "timeout": 0}


def _none(settings: Settings) -> Settings:
    return NONE if settings["num_workers"] else {}


FIX = Fix(
    name="no-workers",
    doc=__doc__,
    cures=("DAT004",),
    snippet="loader = DataLoader(dataset, batch_size=64, num_workers=0)\n",
    changes_numbers="random augmentations draw other numbers",
    draws_otherwise=True,
    rank=2,
    clock="wall",
    set_up=lambda machine: loaders(_none),  # noqa: ARG005  # the same on every machine
    excludes="workers",
)
