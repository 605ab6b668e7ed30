"""Autocast computes in bfloat16 on a CPU that has no units for it.

What it finds
    Convolutions and matrix products whose operands are bfloat16, with the casts to and from it, in a run that kept to a
    CPU whose flags show no bfloat16 arithmetic.

Why it costs
    Without such units each product widens its operands to float32, computes, and rounds the result, and autocast adds
    a cast of each weight and each activation. What is saved in bytes does not pay for that.

What to do
    Leave autocast off on this machine: `torch.autocast("cpu", enabled=False)`, or make it depend on the machine's
    flags (avx512_bf16, amx_bf16; bf16 on ARM). A model that was converted goes back by `model.float()`.

When not to
    The same code may be right on another host: CPUs with these units gain from it. Where memory is what is short, half
    the bytes may be worth the time.

Source
    pytorch/pytorch#86270, #118499 and #111456; intel/intel-extension-for-pytorch#637.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.operands import ARGUMENTS, tensors
from profiler_doctor.analyzer.measures.ops import outermost_named
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.typed_products import products_of
from profiler_doctor.analyzer.trace import Ints, Trace

BF16 = ("c10::BFloat16",)
UNITS = ("avx512_bf16", "amx_bf16", "bf16", "svebf16")
"""Flags of CPUs that multiply bfloat16 themselves."""
CAST = "aten::_to_copy"
CASTS = ("aten::to", CAST)


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding; what it is worth only a trial can tell."""
    facts = trace.facts
    if facts is None or not facts.cpu_flags or set(facts.cpu_flags) & set(UNITS):
        return
    products = products_of(trace, BF16)
    casts = _casts(trace) if len(products) else products
    rows = np.union1d(products, casts)
    part = share(trace, rows)
    if not len(products) or part < limits["share"]:
        return
    by_autocast = any(root.autocast == "bfloat16" for root in facts.roots)
    how = "Under autocast, products" if by_autocast else "Products"
    yield Sighting(
        message=f"{how} in bfloat16 and the casts around them take {part:.0%} of {whole(trace)}, on a CPU without "
        "arithmetic for it.",
        where=where_of(trace, int(products[np.argmax(trace.events.dur_ns[products])])),
        evidence={"products": len(products), "casts": len(casts), "share": part, "autocast": by_autocast},
        intervals_ns=intervals_of(trace, rows),
    )


def _casts(trace: Trace) -> Ints:
    """The outermost casts of the window that take or give bfloat16: their copies tell."""
    copies = trace.rows_named("aten::copy_".__eq__, ("cpu_op",))
    codes = np.stack([trace.events.text(name).at(copies, -1) for name in ARGUMENTS[:2]])
    _, first, which = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    kinds = [{operand.type for operand in tensors(trace, row)} for row in copies[first].tolist()]
    fits = np.array([len(kind) == 2 and BF16[0] in kind for kind in kinds], np.bool_)[which.reshape(-1)]
    around = outermost_named(trace, copies[fits], CASTS.__contains__)
    return rows_in_window(trace, np.unique(around[around >= 0]))


RULE = Rule(
    code="PRC006",
    name="autocast-without-isa",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES, Has.CPU_ONLY, Has.CAPTURE),
    thresholds={"share": Threshold(0.01, "share of the step", "less cannot matter, whatever the CPU makes of it")},
)
