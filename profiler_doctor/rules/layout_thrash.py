"""Images are turned from one memory order into the other and back again, layer after layer.

What it finds
    Copies that change nothing but the order in memory, next to convolutions: from the channels first to the channels
    last, and in the same step, for a tensor of the same shape, the way back.

Why it costs
    Each copy reads and writes the whole tensor once, out of order, and computes nothing. A block that norms or mixes
    over its channels between two convolutions does it twice, and the backward pass does both again.

What to do
    Keep one order: with `model.to(memory_format=torch.channels_last)` and inputs in the same order, `permute` to the
    channels last is a mere view and `.contiguous()` behind it finds nothing to do. Where the copies stem from norms
    over the channels, a norm that takes channels-first tensors (`nn.GroupNorm(1, channels)`) may do as well.

When not to
    Taking `.contiguous()` out alone can move the copy into the next op. Grouped convolutions and InstanceNorm may be
    slower with the channels last: measure. A single change of order, as before a transformer's first block, is no
    thrashing; nor are the transposed copies around attention heads.

Source
    pytorch/pytorch#78611 and #172205; PyTorch's channels-last tutorial.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.layouts import layout_copies
from profiler_doctor.analyzer.measures.ops import inside_named, is_op, named
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace

Order = tuple[int, ...]
CONVOLUTION = named(r"^aten::\w*conv")
"""Copies in there are the library's own: another order of the images need not spare them."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all copies to and fro."""
    span = window(trace)
    if span is None:
        return
    copies = _to_and_fro(trace)
    rows = np.unique(copies["asked"].to_numpy(np.int64))
    part = share(trace, rows)
    if len(copies) < limits["turns"] * span.per or part < limits["share"]:
        return
    longest = int(rows[np.argmax(trace.events.dur_ns[rows])])
    yield Sighting(
        message=f"Copies that turn images between channels-first and channels-last and back, "
        f"{len(copies) / span.per:g} in each {span.unit}, take {part:.0%} of {whole(trace)}.",
        where=where_of(trace, longest),
        evidence={
            "copies": len(copies),
            "copies_per_step": round(len(copies) / span.per, 3),
            "share": part,
            "bytes": int(copies["bytes"].sum()),
        },
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows.tolist(), 0.0)),
        basis="the copies gone, as in one memory order throughout",
    )


def _to_and_fro(trace: Trace) -> pd.DataFrame:
    """Those copies of the window that move the channels of what a convolution takes, and whose way back was made."""
    images = {_extents(call.input.dims) for call in convolutions(trace)}
    copies = layout_copies(trace)
    copies = copies[np.array([_extents(before) in images for before in copies["before"]], np.bool_)]
    copies = copies[copies["row"].isin(rows_in_window(trace, copies["row"])) & is_op(trace)[copies["asked"]]]
    copies = copies[np.array([_moves_channels(turn) for turn in copies["turn"]], np.bool_)]
    copies = copies[~inside_named(trace, copies["asked"].to_numpy(np.int64), CONVOLUTION)]
    ways = list(zip(copies["before"].tolist(), copies["after"].tolist(), copies["turn"].tolist(), strict=True))
    made = set(ways)
    return copies[np.array([(after, before, _back(turn)) in made for before, after, turn in ways], np.bool_)]


def _back(turn: Order) -> Order:
    """The turn that undoes one: where channels, rows and columns are as many, the extents alone do not tell."""
    return tuple(turn.index(place) for place in range(len(turn)))


def _extents(dims: Order) -> Order:
    return tuple(sorted(extent for extent in dims if extent != 1))


def _moves_channels(turn: Order) -> bool:
    """Whether the direction next to the batch goes to the end, or comes from there, and the others keep their order.

    A batch of one is left out of the turn.
    """
    for first in (0, 1):
        kept, inner = turn[:first], turn[first:]
        places = tuple(range(first, len(turn)))
        if len(inner) >= 2 and kept == (0,) * first and inner in (places[1:] + places[:1], places[-1:] + places[:-1]):
            return True
    return False


RULE = Rule(
    code="LAY003",
    name="layout-thrash",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES, Has.STRIDES),
    thresholds={
        "turns": Threshold(2, "copies per step", "there and back is the least; one way alone is a change of layout"),
        "share": Threshold(0.01, "share of the step", "less is lost in noise, and not worth a new layout"),
    },
)
