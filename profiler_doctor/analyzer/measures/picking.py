"""Whether a data loader only picks small rows out of tensors in memory, one sample after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from profiler_doctor.analyzer.facts import LoaderFacts
from profiler_doctor.analyzer.measures.element_types import width
from profiler_doctor.analyzer.measures.fetches import fetches, ops_in, outer_ops_in
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.share import profiler_ns_per_op
from profiler_doctor.analyzer.trace import Ints, Trace, measure

SMALL_BYTES = 64 * 1024
"""A sample; copying a larger one takes longer than to fetch it by itself (RULES.md, DAT002)."""
WIDEST = 8
"""Bytes of a number."""
QUICK_NS = 50_000
"""For one sample, un-profiled: Python that takes longer does more than to pick it."""
FEWEST = 8
"""Samples in a batch, below which to fetch them one by one costs next to nothing."""
PICKS = {
    "select", "slice", "index", "unbind", "narrow", "take", "as_strided", "view", "alias", "detach", "detach_",
    "unsqueeze", "squeeze", "lift_fresh", "clone", "empty", "resize_", "to",
}  # fmt: skip
"""Ops, without `aten::`, that look up a row or give it another shape."""
GATHERS = {"stack", "cat"}
FETCH, EACH_TENSOR = 6, 6
"""What a fetch takes besides, and for each tensor of a sample, in picks of a row: measured 12, 18 and 24 µs for 1, 2
and 3 tensors where a pick and its place in the stack take 1.1."""
AT_ONCE = 1 / 8
"""What a row takes in one indexing of all of them, in picks: mostly turning its number from Python into a tensor's;
measured 0.14 µs for each tensor of a sample, for 16 to 512 samples."""
GATHER = 1.7
"""Times as long as a copy takes the indexing for the bytes alone: 6 to 9 against 13 GB/s, measured."""
BYTES_PER_S = 4e9
"""Of copying, where it was not measured: what any machine that runs a model does."""


@dataclass(frozen=True)
class Picking:
    """What such a loader does in one fetch."""

    samples: int
    sample_bytes: int
    ns_per_sample: int
    """Un-profiled as far as is known."""
    whole_share: float
    """What one indexing of all rows would take of what the fetch takes now; more than 1: it would take longer."""
    loader: LoaderFacts | None


@measure
def picking(trace: Trace) -> Picking | None:
    """None where the loader does more than that, or other processes do it, or nothing tells that data are in memory.

    Our own capture knows the datasets; in other recordings the ops must show that rows of tensors are picked.
    """
    found = fetches(trace)
    loader = _loader(trace)
    known = trace.facts is not None and bool(trace.facts.loaders)
    if not found.single_process or (known and loader is None):
        return None
    inner = outer_ops_in(trace, found.usual)
    names = inner["name"].astype(str).str.removeprefix("aten::")
    picks = inner["row"][names.isin(PICKS)].to_numpy(np.int64)
    samples = _per_fetch(trace, picks, len(found.usual)) if loader is None else loader.batch_size or 0
    numbers, row_bytes = _row_size(trace, picks)
    fetch_ns = _fetch_ns(trace, found.usual, loader)
    quick_ns = fetch_ns // max(samples, 1)
    small = samples >= FEWEST and numbers * WIDEST <= SMALL_BYTES and quick_ns <= QUICK_NS
    gathered = loader is not None or names.isin(GATHERS).any()
    if not small or not gathered or not names.isin(PICKS | GATHERS).all():
        return None
    tables = max(_per_fetch(trace, picks, len(found.usual)) // samples, 1)
    copy_ns = 2 * samples * row_bytes / _bytes_per_s(trace) * 1e9
    return Picking(samples, numbers * WIDEST, quick_ns, _whole_share(fetch_ns, samples, tables, copy_ns), loader)


def _whole_share(fetch_ns: int, samples: int, tables: int, copy_ns: float) -> float:
    """`tables`: tensors that a sample is picked from; `copy_ns`: what the batch's bytes take to be copied."""
    besides = FETCH + EACH_TENSOR * tables
    pick_ns = max(fetch_ns - copy_ns, 0.0) / (besides + samples * tables)
    return (pick_ns * (besides + samples * tables * AT_ONCE) + GATHER * copy_ns) / max(fetch_ns, 1)


def _bytes_per_s(trace: Trace) -> float:
    return (trace.facts.copy_bytes_per_s if trace.facts else None) or BYTES_PER_S


def _per_fetch(trace: Trace, picks: Ints, count: int) -> int:
    """How often the op that picks most often does so in one fetch."""
    return int(np.bincount(trace.events.name[picks]).max()) // max(count, 1) if len(picks) else 0


def _row_size(trace: Trace, picks: Ints) -> tuple[int, int]:
    """Numbers, and bytes, in the largest row that is picked, where shapes tell."""
    shapes = trace.events.text("Input Dims").at(picks, -1)
    _, first = np.unique(shapes, return_index=True)
    given = [found[0] for row in picks[first].tolist() if (found := tensors(trace, row))]
    rows = [(prod(one.dims[1:]), one.type) for one in given]
    numbers, kind = max(rows, default=(0, ""))
    return numbers, numbers * (width(kind) or WIDEST)


def _loader(trace: Trace) -> LoaderFacts | None:
    """The one in memory, begun most often, that makes batches in the program's own process in torch's own way."""
    seen = trace.facts.loaders if trace.facts else ()
    fitting = [
        one for one in seen if one.in_memory and not one.workers and one.batch_size is not None and not one.own_collate
    ]
    return max(fitting, key=lambda one: one.iterators, default=None)


def _fetch_ns(trace: Trace, rows: Ints, loader: LoaderFacts | None) -> int:
    if loader is not None and loader.fetch_ns:
        return loader.fetch_ns
    took = trace.events.dur_ns[rows] - profiler_ns_per_op(trace) * ops_in(trace, rows)
    return int(max(np.median(took), 0.0))
