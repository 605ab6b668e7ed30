"""Keep the loader's processes from one epoch to the next.

What it does: loaders with workers keep them alive (`persistent_workers=True`) instead of starting them again for every
pass over the data.

When it applies: short epochs, or data sets that take long to open. The workers' copies of the data set live on: changes
that the script makes to it between epochs do not reach them.

How results may change: not at all, unless the script changes its data set between epochs.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._loaders import Settings, loaders


def _kept(settings: Settings) -> Settings:
    return {"persistent_workers": True} if settings["num_workers"] else {}


FIX = Fix(
    name="persistent-workers",
    doc=__doc__,
    cures=("DAT003",),
    snippet="loader = DataLoader(dataset, batch_size=64, num_workers=2, persistent_workers=True)\n",
    changes_numbers="",
    rank=0,
    clock="wall",
    set_up=lambda machine: loaders(_kept),  # noqa: ARG005  # the same on every machine
)
