"""Rotary position embeddings are spelled out in single ops.

What it finds
    A product with the cosines, a negated half put before the other half, a product with the sines, and the sum of
    both; or the same on two halves with four products. The shapes have to fit.

Why it costs
    Each op reads and writes all queries or keys of a layer, while a fused kernel needs to read and write them once.
    The concatenation alone moves every number to turn half of them.

What to do
    A fused rotary kernel of your model's or attention's library, or `torch.compile` of the function that applies
    them. Turning queries and keys in one go halves the number of calls.

When not to
    Where queries are a few tokens only, as in decoding, the calls cost more than the memory; there a graph of the
    step helps more.

Source
    Su et al. 2021 (RoFormer); RULES.md, FUS003.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.chains import described, fusing, in_window, stretches
from profiler_doctor.analyzer.measures.decomposed import rotaries
from profiler_doctor.analyzer.measures.share import share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all of them in the window."""
    found, span = in_window(trace, rotaries(trace)), window(trace)
    if not found or span is None:
        return
    part = share(trace, [row for chain in found for row in chain.rows])
    yield Sighting(
        message=f"Rotary embeddings are written out in single ops, {len(found) / span.per:.3g} times per {span.unit}: "
        f"{part:.1%} of {whole(trace)}.",
        where=where_of(trace, max(found, key=lambda chain: chain.moved).rows[0]),
        evidence=described(trace, found) | {"share": part},
        intervals_ns=stretches(trace, found),
        edit=fusing(trace, found),
        basis="each as one op, as long as its longest piece or as the memory needs for what goes in and out",
    )


RULE = Rule(
    code="FUS003",
    name="decomposed-rotary",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
)
