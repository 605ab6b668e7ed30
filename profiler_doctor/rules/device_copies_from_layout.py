"""Much time goes into putting tensors into another order in memory.

What it finds
    Copy kernels under `contiguous`, `clone`, `reshape`, or `to` without a change of type, whose outermost such op is
    the program's: 2 % of the GPU's work or more. Plain copies of bytes (a `clone` of a contiguous tensor) are no change
    of order and are not meant; neither are the transforms that a convolution makes by itself (LAY001). In a run that
    kept to the CPU: such copies, told by the strides, that take 5 % of the step or more; images that a convolution
    takes are left to LAY003.

Why it costs
    A copy reads and writes the whole tensor and computes nothing; transposed reads use the memory badly, so it may take
    as long as the layer it serves.

What to do
    Let the producer write what the consumer wants: fuse the permute into the matrix product or the elementwise op
    before it (`torch.compile` does), use kernels that take strides, or keep one layout from end to end. An
    `expand` before `contiguous` writes the same values many times: let the attention op repeat the heads
    (`enable_gqa=True`).

When not to
    Some kernels need contiguous input, and one copy may serve many reads: try, and measure.

Source
    RULES.md, CPY006. Same-type copies between contiguous tensors are memory copies in PyTorch, so a copy kernel means
    that the order changes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting, Threshold
from profiler_doctor.analyzer.measures.attention_copies import attention_copies
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.layouts import layout_copies
from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.ops import inside_named, named, outermost_named
from profiler_doctor.analyzer.measures.places import places
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, whole
from profiler_doctor.analyzer.measures.source import source_of, where_of
from profiler_doctor.analyzer.measures.window import Window, linked_work, window
from profiler_doctor.analyzer.trace import Bools, Ints, Trace

ORDERS = named(r"^aten::(contiguous|clone|reshape)$")
CONVERTS = named(r"^aten::to$")
CONVOLUTION_NAMES = r"convolution|conv[123]d"
CONVOLUTION = named(CONVOLUTION_NAMES)
LIBRARY = named(CONVOLUTION_NAMES, r"scaled_dot_product|^autograd::engine|Backward\d*$|^Optimizer\.|DataLoader")
"""What copies inside of these the program did not ask for, nor can it spare them."""


def find(trace: Trace, limits: Limits) -> Iterable[Sighting]:
    """At most one finding, for all such copies of the window."""
    span, work = window(trace), linked_work(trace)
    if span is not None and Has.CPU_ONLY in trace.has:
        yield from _on_the_cpu(trace, limits["cpu_share"], span)
    if span is None or not len(work):
        return
    moved = _copies(trace, work[work["kind"] == "kernel"])
    time, total = int(moved["dur_ns"].sum()), int(work["dur_ns"].sum())
    if not len(moved) or time < limits["gpu_share"] * total:
        return
    asked = _dearest_place(trace, moved)
    names = pd.Series(trace.events.names_at(moved["asked"].to_numpy(np.int64)))
    yield Sighting(
        message=f"{len(moved) / span.per:.3g} copies per {span.unit} only change the order of tensors in memory: "
        f"{time / span.per / 1e6:.3g} ms, {time / total:.1%} of the GPU's work.",
        where=where_of(trace, asked),
        evidence={
            "copies": len(moved),
            "time_ns": time,
            "gpu_share": round(time / total, 6),
            "asked_by": names.value_counts().to_dict(),
        },
        intervals_ns=places(moved.sort_values("dur_ns", ascending=False)),
        edit=Edit(keep=dict.fromkeys(moved["row"].tolist(), 0.0)),
        basis="the copies gone, the kernels that read them as they are",
    )


def _on_the_cpu(trace: Trace, least: float, span: Window) -> Iterable[Sighting]:
    """The same of copies on the CPU, by their time."""
    images = {tuple(sorted(size for size in call.input.dims if size > 1)) for call in convolutions(trace)}
    copies = layout_copies(trace)
    other = [tuple(sorted(before)) not in images for before in copies["before"]]
    rows = copies["asked"].to_numpy(np.int64)[np.array(other, np.bool_)]
    rows = rows_in_window(trace, np.unique(rows[~inside_named(trace, rows, LIBRARY)]))
    part = share(trace, rows)
    if not len(rows) or part < least:
        return
    yield Sighting(
        message=f"{len(rows) / span.per:.3g} copies per {span.unit} only change the order of tensors in memory: "
        f"{part:.1%} of {whole(trace)}.",
        where=where_of(trace, int(rows[trace.events.dur_ns[rows].argmax()])),
        evidence={"copies": len(rows), "time_ns": int(trace.events.dur_ns[rows].sum()), "share": part},
        intervals_ns=intervals_of(trace, rows),
        edit=Edit(keep=dict.fromkeys(rows.tolist(), 0.0)),
        basis="the copies gone, the ops that read them as they are",
    )


def _copies(trace: Trace, kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels that copy into another order, and in column `asked` the outermost op that asked for it."""
    op = kernels["op"].to_numpy(np.int64)
    copying = trace.events.matching_names("aten::copy_".__eq__)[trace.events.name[op]] & (op >= 0)
    kernels, op = kernels[copying], op[copying]
    order, convert = outermost_named(trace, op, ORDERS), outermost_named(trace, op, CONVERTS)
    wanted = (order >= 0) | ((convert >= 0) & _keeps_type(trace, op))
    chosen = wanted & ~inside_named(trace, op, CONVOLUTION) & ~_around_attention(trace, op)
    return kernels.assign(asked=np.where(order >= 0, order, convert))[chosen]


def _around_attention(trace: Trace, op: Ints) -> Bools:
    """Whether ATT003 speaks of the copy, or would if it mattered to attention."""
    told = [row for rows in attention_copies(trace).values() for row in rows]
    theirs: Bools = enclosing(trace, op, np.array(told, np.int64)) >= 0
    return theirs


def _keeps_type(trace: Trace, op: Ints) -> Bools:
    """Whether each copy is known to be between tensors of one type."""
    codes, first, same = np.unique(trace.events.text("Input type").at(op, -1), return_index=True, return_inverse=True)
    told = [[operand.type for operand in operands(trace, row)[:2]] for row in op[first].tolist()]
    keeps = np.array([len(types) == 2 and types[0] == types[1] != "" for types in told], np.bool_)
    chosen: Bools = (keeps & (codes >= 0))[same]
    return chosen


def _dearest_place(trace: Trace, moved: pd.DataFrame) -> int:
    """The first op of the source line whose copies take longest."""
    rows = moved["asked"].to_numpy(np.int64)
    lines = np.array([str(place) for place in source_of(trace, rows)], dtype=object)
    most = moved["dur_ns"].groupby(lines).sum().idxmax()
    return int(rows[np.flatnonzero(lines == most)[0]])


RULE = Rule(
    code="CPY006",
    name="device-copies-from-layout",
    doc=__doc__,
    find=find,
    needs=(Has.OPS,),
    thresholds={
        "gpu_share": Threshold(0.02, "share of the GPU's work", "a copy here and there is normal (RULES.md)"),
        "cpu_share": Threshold(0.05, "share of the step", "merging attention's heads takes less, and has to be"),
    },
)
