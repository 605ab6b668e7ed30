"""Data that lie in memory are fetched one sample at a time and put together again.

What it finds
    Fetches of a data loader in the program's own process that do nothing but pick small rows (below 64 KB) out of
    tensors, one sample after the other, and stack them to a batch, where the step waits for it.

Why it costs
    Each sample costs a call of the dataset, a view, and a place in Python's lists, some ten microseconds in all, and
    the batch is copied together from them. One op would pick all rows of a batch at once.

What to do
    Let the loader hand whole batches of indices to the dataset:
    `DataLoader(data, sampler=BatchSampler(RandomSampler(data), 128, drop_last=False), batch_size=None)`, whose
    `__getitem__` then gets a list of indices; or do without: `for rows in torch.randperm(n).split(128): x[rows]`.
    More workers are not the answer: sending a batch between processes costs more than to pick it.

When not to
    A dataset whose `__getitem__` cannot take a list of indices has to learn it first. Samples of different lengths, or
    that are augmented one by one, need their own calls.

Source
    huggingface/datasets#6279, NLESC-JCER/QMCTorch#127; Lightning-AI/pytorch-lightning#17410 on workers.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.fetches import Fetches, fetches, stays
from profiler_doctor.analyzer.measures.picking import Picking, picking
from profiler_doctor.analyzer.measures.share import intervals_of
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding."""
    found, picked = fetches(trace), picking(trace)
    if picked is None or found.share < limits["gpu_share" if found.of == "device" else "step_share"]:
        return
    of = "device's time" if found.of == "device" else found.of
    yield Sighting(
        message=f"Batches of {picked.samples} small samples that lie in memory are fetched one sample at a time, which "
        f"takes {found.share:.0%} of the {of}.",
        where=_where(trace, found, picked),
        evidence={
            "share": found.share,
            "samples": picked.samples,
            "sample_bytes": picked.sample_bytes,
            "ns_per_sample": picked.ns_per_sample,
            "fetches": len(found.rows),
        },
        intervals_ns=intervals_of(trace, found.usual),
        edit=Edit(keep=_keep(trace, found, min(picked.whole_share, 1.0))),
        basis="each batch by one indexing of all its rows, as long as that takes a TensorDataset",
    )


def _keep(trace: Trace, found: Fetches, whole: float) -> dict[int, float]:
    """Row → share that stays, where one indexing takes the share `whole` of a fetch."""
    if found.of == "device":
        return dict.fromkeys(found.usual.tolist(), whole)
    return stays(trace, found.usual, found.share * (1 - whole))


def _where(trace: Trace, found: Fetches, picked: Picking) -> Where:
    """The line that makes the loader, where it is known, else where it is iterated over."""
    name = trace.events.name_of(int(found.usual[0]))
    if picked.loader is not None and picked.loader.file:
        return Where(file=picked.loader.file, line=picked.loader.line, op=name)
    known = where_of(trace, int(found.usual[0]))
    return Where(file=known.file, line=known.line, op=name)


RULE = Rule(
    code="DAT002",
    name="per-sample-fetch",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "step_share": Threshold(0.10, "share of the step", "as DAT001, which is silent where this rule speaks"),
        "gpu_share": Threshold(0.03, "share of the GPU's time", "as DAT001, which is silent where this rule speaks"),
    },
)
