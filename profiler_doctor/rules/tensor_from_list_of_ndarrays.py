"""A tensor is made from a list of NumPy arrays, which Python does number by number.

What it finds
    Calls of `torch.tensor` or `torch.as_tensor` on a list of arrays, by the time they take of the step. Our own capture
    sees what they are given; in a recording with Python stacks it is told by the call taking its time outside of all
    ops, and may then be a list of plain numbers too.

Why it costs
    Each number is taken out of its array, made a Python object, converted and put into the tensor: about a hundred
    times as long as copying it. The time belongs to no op, so that tables of ops blame whatever comes next.

What to do
    Make one array first: `torch.from_numpy(np.stack(arrays))`, or `np.asarray(arrays)`; better still, keep the data in
    one array or tensor from the start. Lists of plain numbers are best made tensors once, outside the loop.

When not to
    Where the list is short or the arrays are of one number each, and where it happens once at the start.

Source
    pytorch/pytorch#13918 and the warning that torch prints since; facebook/Ax#4798.
"""

from __future__ import annotations

from collections.abc import Iterable

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.conversions import Conversions, conversions
from profiler_doctor.analyzer.measures.share import host_share, intervals_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace

BYTES_PER_NUMBER = 2 * 8 * 2
"""Of float64, the widest: stacked, then copied once more, each reading and writing them."""
BYTES_PER_S = 4e9
"""Of copying, where it was not measured: what any machine that runs a model does."""
FROM_STACKS = 0.001
"""Of a recording with stacks: what stays of a list's conversion where its size is not known."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """One finding for each line that does it."""
    span = window(trace)
    for found in conversions(trace):
        part = host_share(trace, found.rows)
        if span is None or part < limits["share"]:
            continue
        yield Sighting(
            message=f"{found.call} of {_what(found)} takes {part:.0%} of the {span.unit}, in no op at all.",
            where=found.where,
            evidence={"calls": len(found.rows), "share": part, **_size(found)},
            intervals_ns=intervals_of(trace, found.rows),
            edit=Edit(keep={row: _kept(trace, found, row) for row in found.rows}),
            basis="the arrays stacked into one and handed over as a whole",
        )


def _what(found: Conversions) -> str:
    if found.facts is None:
        return "a list, number by number,"
    return f"a list of {found.facts.arrays} NumPy arrays ({found.facts.elements:,} numbers, one by one)"


def _size(found: Conversions) -> dict[str, object]:
    return {"arrays": found.facts.arrays, "numbers": found.facts.elements} if found.facts else {}


def _kept(trace: Trace, found: Conversions, row: int) -> float:
    """The share of one call that stays: what copying the numbers takes."""
    if found.facts is None:
        return FROM_STACKS
    speed = (trace.facts.copy_bytes_per_s if trace.facts else None) or BYTES_PER_S
    least_ns = found.facts.elements * BYTES_PER_NUMBER / speed * 1e9
    return min(1.0, least_ns / max(int(trace.events.dur_ns[row]), 1))


RULE = Rule(
    code="PYB005",
    name="tensor-from-list-of-ndarrays",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={"share": Threshold(0.02, "share of the step", "a short list now and then is not worth another line")},
)
