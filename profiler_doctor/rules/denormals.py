"""Tensors hold numbers so small that the CPU computes with them slowly.

What it finds
    Parameters, optimizer state and other tensors that variables of the script hold, of which more than 1 % are
    subnormal: not zero, but below the smallest number that the type represents in full (1.2e-38 in float32). Our own
    capture looks at a sample of each, between two steps, in a run that kept to the CPU.

Why it costs
    Many CPUs handle such numbers in microcode: an addition or multiplication that meets one takes up to a hundred times
    as long. They come from what decays and is never touched again: moments of rows that get no gradient, filters that
    die away, products of many small factors.

What to do
    `torch.set_flush_denormal(True)` at the start makes the CPU take them for zero. Or keep them from arising: a larger
    epsilon, no decay of weights that are not used, clamping.

When not to
    Where the difference between such numbers and zero matters, which outside of some simulations it never does. Some
    CPUs lose little by them: try.

Source
    RULES.md, PRC007; Intel's manual on flush-to-zero; the documentation of torch.set_flush_denormal.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profiler_doctor.analyzer.kinds import Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.factories import FILLS
from profiler_doctor.analyzer.measures.operands import tensors
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.share import judged_steps, rows_in_window
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.model import Where
from profiler_doctor.analyzer.trace import Trace

DIMS = "Input Dims"


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such tensors; what they cost only a trial can tell."""
    seen = trace.facts.subnormals if trace.facts else ()
    slow = [one for one in seen if one.share > limits["share"]]
    if not slow:
        return
    most = max(slow, key=lambda one: one.share * one.elements)
    others = f", and {len(slow) - 1} more" if len(slow) > 1 else ""
    yield Sighting(
        message=f"{most.share:.0%} of the {most.elements:,} numbers in `{most.holder}`{others} are subnormal, and many "
        "CPUs compute slowly with those.",
        where=_where(trace, most.elements),
        evidence={
            "tensors": {one.holder: one.share for one in slow},
            "elements": sum(one.elements for one in slow),
        },
        intervals_ns=judged_steps(trace),
    )


def _where(trace: Trace, elements: int) -> Where:
    """The op that takes longest by itself of those that are given as many numbers; of all, where no shapes are told."""
    table = ops(trace)
    table = table[table["is_op"] & table["row"].isin(rows_in_window(trace, table["row"]))]
    rows = table["row"].to_numpy(np.int64)
    shapes, first, same = np.unique(trace.events.text(DIMS).at(rows, -1), return_index=True, return_inverse=True)
    fits = [any(one.size == elements for one in tensors(trace, row)) for row in rows[first].tolist()]
    given = np.array(fits, np.bool_)[same] if len(rows) else np.empty(0, np.bool_)
    given &= ~trace.events.matching_names(FILLS)[trace.events.name[rows]]  # what is overwritten is not computed with
    chosen = table[given] if (shapes >= 0).any() else table
    if not len(chosen):
        return Where()
    return where_of(trace, int(chosen["row"].to_numpy()[chosen["self_ns"].to_numpy().argmax()]))


RULE = Rule(
    code="PRC007",
    name="denormals",
    doc=__doc__,
    find=find,
    needs=(Has.CAPTURE, Has.CPU_ONLY),
    thresholds={
        "share": Threshold(0.01, "share of a tensor's numbers", "a few among many cost a few cycles (RULES.md)")
    },
)
