"""Fetch a batch from the data set at once instead of sample by sample.

What it does: a loader over tensors in memory hands its list of indices to the data set as a whole (`BatchSampler` as
sampler, no batch size), so that a batch is one indexing op instead of one for each sample and a stack of them.

When it applies: a `TensorDataset` with the loader's own way of joining samples. A data set of your own needs a
`__getitem__` (or `__getitems__`) that takes a list.

How results may change: not at all; samples and their order are the same.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from __future__ import annotations

from typing import Any

from profiler_doctor.analyzer.kinds import Fix
from profiler_doctor.fixes._loaders import Settings, loaders


def _whole(settings: Settings) -> Settings:
    from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, TensorDataset

    dataset, size = settings["dataset"], settings["batch_size"]
    if type(dataset) is not TensorDataset or size is None:
        return {}
    if settings["collate_fn"] is not None or settings["batch_sampler"] is not None:
        return {}
    sampler = settings["sampler"]
    if sampler is None and settings["shuffle"]:
        sampler = RandomSampler(dataset, generator=settings["generator"])
    batches = BatchSampler(sampler or SequentialSampler(dataset), size, settings["drop_last"])
    whole = {"sampler": batches, "batch_size": None, "shuffle": None, "drop_last": False}
    return {**whole, "collate_fn": _as_joined}


def _as_joined(batch: Any) -> list[Any]:
    """A list, as torch's own joining of tuples gives."""
    return list(batch)


FIX = Fix(
    name="whole-batches",
    doc=__doc__,
    cures=("DAT002",),
    snippet="""\
sampler = BatchSampler(RandomSampler(dataset), batch_size=64, drop_last=False)
loader = DataLoader(dataset, sampler=sampler, batch_size=None)
""",
    changes_numbers="",
    rank=1,
    set_up=lambda machine: loaders(_whole),  # noqa: ARG005  # the same on every machine
)
