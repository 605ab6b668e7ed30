"""A model in float16 runs on a CPU.

What it finds
    Convolutions and matrix products whose operands are float16, in a run that kept to the CPU, and that take a part of
    the step worth speaking of.

Why it costs
    float16 is a format for GPUs. Most CPUs have no arithmetic for it: every op converts to float32 and back, and many
    kernels have a slow path for it alone. A model saved for a GPU brings it along unnoticed.

What to do
    `model.float()` after loading (or bfloat16 where the CPU has units for it), and inputs in the same type.

When not to
    CPUs with float16 units (avx512_fp16, amx_fp16, ARM's fphp) can be as fast or faster with it, depending on the
    shapes: there nothing but a trial can tell. Where memory is what is short, half the bytes may be worth the time.

Source
    huggingface/transformers#34692 (245 s in float32, about 1650 s in float16); oneDNN's guide to data types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.share import intervals_of, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.typed_products import products_of
from profiler_doctor.analyzer.trace import Trace

HALF = ("c10::Half", "half")
FP16_UNITS = ("avx512_fp16", "amx_fp16", "fphp", "asimdhp")
"""Flags of CPUs that compute in float16 themselves."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding; what it is worth only a trial can tell."""
    rows = products_of(trace, HALF)
    part = share(trace, rows)
    if not len(rows) or part < limits["share"]:
        return
    events = trace.events
    longest = int(rows[np.argmax(events.dur_ns[rows])])
    units = sorted(set(FP16_UNITS) & set(trace.facts.cpu_flags)) if trace.facts else []
    known = f"This CPU has units for it ({', '.join(units)}), so it may even be right." if units else ""
    unknown = "Few CPUs compute in it." if trace.facts is None else "This CPU has no arithmetic for it."
    yield Sighting(
        message=f"Convolutions and matrix products in float16 take {part:.0%} of {whole(trace)}. {known or unknown}",
        where=where_of(trace, longest),
        evidence={
            "ops": len(rows),
            "share": part,
            "by_op": dict(Counter(events.names_at(rows)).most_common(5)),
            "fp16_units": units,
        },
        intervals_ns=intervals_of(trace, rows),
    )


RULE = Rule(
    code="PRC005",
    name="half-on-cpu",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES, Has.CPU_ONLY),
    thresholds={"share": Threshold(0.01, "share of the step", "less cannot matter, whatever the CPU makes of it")},
)
