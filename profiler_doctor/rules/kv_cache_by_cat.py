"""A cache of keys and values is copied whole to add one token to it.

What it finds
    Concatenations of a tensor with one more row along one axis, two or more at each length (keys and values of each
    layer), whose length goes up by one from token to token.

Why it costs
    Every token that is generated copies the keys and values of all tokens before it, in every layer: the bytes copied
    grow with the square of the length. Addresses change each time too, so the step cannot become a graph.

What to do
    Make the cache as long as it will become and write the new token into its place: in Hugging Face models
    `model.generate(..., cache_implementation="static")`; by hand `cache[:, :, position] = key` and attention over
    `cache[:, :, : position + 1]`.

When not to
    Beam search reorders the cache at each token (no finding where rows of it are selected). A static cache takes its
    full length of memory from the start, and attention over all of it can cost more than it saves for short texts.

Source
    The KV cache strategies guide of Hugging Face transformers; RULES.md, ATT004.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.caches import GrowingCache, growing_caches
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each kind of cache."""
    for cache in growing_caches(trace):
        if cache.each < limits["each"] or _reordered(trace, cache):
            continue
        part = share(trace, cache.rows)
        yield Sighting(
            message=f"{cache.each} caches are copied whole for each token, with {min(cache.tokens)} to "
            f"{max(cache.tokens)} tokens in them: {part:.1%} of {whole(trace)}.",
            where=where_of(trace, cache.rows[-1]),
            evidence={
                "copies": len(cache.rows),
                "caches": cache.each,
                "tokens": [min(cache.tokens), max(cache.tokens)],
                "shape": list(cache.dims),
                "axis": cache.axis,
                "share": part,
            },
            intervals_ns=intervals_of(trace, cache.rows),
            edit=Edit(keep=_kept(trace, cache)),
            basis="only the new token written",
        )


def _kept(trace: Trace, cache: GrowingCache) -> dict[int, float]:
    """Of what is written now, tokens + 1, one token stays."""
    stays = {row: 1 / (tokens + 1) for row, tokens in zip(cache.rows, cache.tokens, strict=True)}
    work = linked_work(trace)
    if not len(work):
        return stays
    around = enclosing(trace, work["op"].to_numpy(np.int64), np.array(cache.rows, np.int64))
    return {row: stays[op] for row, op in zip(work["row"].tolist(), around.tolist(), strict=True) if op >= 0}


def _reordered(trace: Trace, cache: GrowingCache) -> bool:
    """Whether samples of a tensor of the cache's shape, whatever its length, are selected."""
    rest = (*cache.dims[: cache.axis], *cache.dims[cache.axis + 1 :])
    for row in trace.rows_named("aten::index_select".__eq__, ("cpu_op",)).tolist():
        given = operands(trace, row)
        dims = given[0].dims if given else ()
        if len(dims) == len(cache.dims) and (*dims[: cache.axis], *dims[cache.axis + 1 :]) == rest:
            return True
    return False


RULE = Rule(
    code="ATT004",
    name="kv-cache-by-cat",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
    thresholds={"each": Threshold(2, "concatenations per token", "keys and values are two for each layer")},
)
