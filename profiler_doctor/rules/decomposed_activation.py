"""An activation, or a gate made of one, is spelled out in single ops.

What it finds
    GELU by its tanh or error-function form, mish, and x · sigmoid(1.702 x) in single ops, and an activation whose
    result is only multiplied with a second tensor of the same shape (SwiGLU, GeGLU and their like), also where that
    tensor's matrix product stands between them.

Why it costs
    Every op reads and writes the whole tensor, and in a transformer these are the widest ones there are. As one
    kernel they are read once and written once.

What to do
    `F.gelu(x, approximate='tanh')`, `F.mish`, `F.silu`; for a gate a fused kernel of your model's library; or
    `torch.compile` of the module.

When not to
    The written-out form of GELU may round differently from the op's. A gate of a few thousand numbers is not worth
    a kernel of its own.

Source
    Hendrycks and Gimpel 2016 (GELU); Shazeer 2020 (GLU variants); RULES.md, FUS004.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.chains import described, fusing, in_window, stretches
from profiler_doctor.analyzer.measures.decomposed import activations
from profiler_doctor.analyzer.measures.share import share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all of them in the window."""
    found, span = in_window(trace, activations(trace)), window(trace)
    if not found or span is None:
        return
    part = share(trace, [row for chain in found for row in chain.rows])
    yield Sighting(
        message=f"Activations or gates are written out, {len(found) / span.per:.3g} times per {span.unit}: "
        f"{part:.1%} of {whole(trace)}.",
        where=where_of(trace, max(found, key=lambda chain: chain.moved).rows[0]),
        evidence=described(trace, found) | {"share": part},
        intervals_ns=stretches(trace, found),
        edit=fusing(trace, found),
        basis="each as one op, as long as its longest piece or as the memory needs for what goes in and out",
    )


RULE = Rule(
    code="FUS004",
    name="decomposed-activation",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
)
