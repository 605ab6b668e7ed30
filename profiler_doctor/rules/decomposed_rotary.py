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

from profiler_doctor.analyzer.kinds import Has, Rule
from profiler_doctor.analyzer.measures.decomposed import rotaries
from profiler_doctor.rules._written_out import finder

RULE = Rule(
    code="FUS003",
    name="decomposed-rotary",
    doc=__doc__,
    find=finder(rotaries, "Rotary embeddings are written out in single ops"),
    needs=(Has.OPS, Has.SHAPES),
)
