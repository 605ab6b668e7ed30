"""Let the loader's processes work further ahead.

What it does: each worker of a loader prepares twice as many batches ahead as it did.

When it applies: batches that take unequally long to prepare. Where all take long, more workers are needed instead; the
batches that wait take memory.

How results may change: not at all.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._loaders import Settings, loaders

DEFAULT = 2
"""What torch prepares ahead for each worker where nothing is said."""


def _doubled(settings: Settings) -> Settings:
    if not settings["num_workers"]:
        return {}
    return {"prefetch_factor": 2 * (settings["prefetch_factor"] or DEFAULT)}


FIX = Fix(
    name="deeper-prefetch",
    doc=__doc__,
    cures=("DAT001",),
    snippet="loader = DataLoader(dataset, batch_size=64, num_workers=2, prefetch_factor=4)\n",
    changes_numbers="",
    rank=2,
    clock="wall",
    set_up=lambda machine: loaders(_doubled),  # noqa: ARG005  # the same on every machine
    variant_of="more-workers",
    excludes="workers",
)
