"""Batch norms in evaluation mode run as a pass of their own after each convolution, or a bias is taken off again.

What it finds
    A batch norm with fixed statistics (training False) that is the very next op after a convolution with as many
    channels, in a run without any backward pass or optimizer step. On a GPU also the kernels that add a convolution's
    bias right before a batch norm that trains.

Why it costs
    With fixed statistics a batch norm is one multiplication and one addition per channel. Both can be put into the
    convolution's weights and bias once; run separately they read and write every activation again. One that trains
    takes the mean off each channel, and with it the bias that a pass over all activations has just added.

What to do
    `torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)` for each pair, `torch.jit.freeze`, or the freezing of
    `torch.compile` (`torch._inductor.config.freezing`). The results differ by rounding alone. In a model that trains:
    `bias=False` in convolutions that are followed by a batch norm.

When not to
    Never while the batch norm trains, and not while the convolution's weights do. A convolution whose result also goes
    elsewhere than into the batch norm cannot be folded; shapes cannot show that, the trial's comparison does.

Source
    Jacob et al. 2018, section 3.2 (batch norm folding); torch.nn.utils.fusion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from profiler_doctor.analyzer.kinds import Edit, Has, Limits, Rule, Sighting
from profiler_doctor.analyzer.measures.chains import enclosing
from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.ops import inside_named, ops
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, trains, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import linked_work, window
from profiler_doctor.analyzer.trace import Trace

TRAINING_FLAG = {"aten::batch_norm": 5, "aten::_batch_norm_impl_index": 5, "aten::cudnn_batch_norm": 5}
"""Name → place of the flag among the arguments; the running statistics stand right before it."""
BIAS = 2
"""Place of the bias among a convolution's arguments."""


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all pairs of the window."""
    pairs = _pairs(trace)
    if trains(trace):
        yield from _useless_biases(trace, [conv for conv, norm in pairs if _trains(trace, norm)])
        return
    norms = rows_in_window(trace, [norm for _, norm in pairs if _fixed(trace, norm)])
    if not len(norms):
        return
    events, span = trace.events, window(trace)
    assert span is not None
    longest = int(norms[np.argmax(events.dur_ns[norms])])
    yield Sighting(
        message="Batch norms with fixed statistics run apart from the convolution before them, "
        f"{len(norms) / span.per:.3g} times per {span.unit}: {share(trace, norms):.1%} of {whole(trace)}.",
        where=where_of(trace, longest),
        evidence={
            "pairs_per_step": len(norms) / span.per,
            "share": share(trace, norms),
            "input": list(operands(trace, longest)[0].dims),
        },
        intervals_ns=intervals_of(trace, norms),
        edit=Edit(keep=dict.fromkeys(norms.tolist(), 0.0)),
        basis="the batch norms gone, the convolutions unchanged",
    )


def _useless_biases(trace: Trace, convs: list[int]) -> Iterable[Sighting]:
    """On a GPU the bias is added by a kernel of its own; oneDNN adds it on the way, which costs nothing."""
    work = linked_work(trace)
    adds = work["op"].to_numpy(np.int64)
    adds = adds[inside_named(trace, adds, "aten::add_".__eq__)]
    biased = [row for row in convs if len(operands(trace, row)) > BIAS and operands(trace, row)[BIAS].dims]
    adds = np.unique(adds[enclosing(trace, adds, np.array(biased, np.int64)) >= 0])
    span = window(trace)
    if not len(adds) or span is None:
        return
    yield Sighting(
        message="A bias is added after a convolution and taken off again by the batch norm that follows, "
        f"{len(adds) / span.per:.3g} times per {span.unit}: {share(trace, adds):.1%} of {whole(trace)}.",
        where=where_of(trace, int(adds[0])),
        evidence={"biases_per_step": len(adds) / span.per, "share": share(trace, adds)},
        intervals_ns=intervals_of(trace, adds),
        edit=Edit(keep=dict.fromkeys(adds.tolist(), 0.0)),
        basis="the additions gone; the bias's gradient goes too and is not counted",
    )


def _pairs(trace: Trace) -> list[tuple[int, int]]:
    """Convolution and batch norm rows, where the one is followed by the other and nothing stands between them."""
    table = ops(trace)
    table = table[table["is_op"]]
    table = table.sort_values(["thread", "parent", "start_ns"], kind="stable")
    rows, keys = table["row"].to_numpy(), table[["thread", "parent"]].to_numpy()
    sisters = np.append(np.all(keys[1:] == keys[:-1], axis=1), False) if len(rows) else np.zeros(0, np.bool_)
    following = dict(zip(rows[:-1][sisters[:-1]].tolist(), rows[1:][sisters[:-1]].tolist(), strict=True))
    found = []
    for call in convolutions(trace):
        norm = following.get(call.row, -1)
        if (
            call.forward
            and norm >= 0
            and _fits(trace, norm, _output(call.input.dims, call.weight.dims, call.transposed))
        ):
            found.append((call.row, norm))
    return found


def _output(given: Sequence[int], weight: Sequence[int], transposed: bool) -> tuple[int | None, int | None]:
    """Batch and channels of a convolution's result; a grouped transposed one's channels are not known."""
    batched = len(given) == len(weight)
    return given[0] if batched else None, None if transposed else weight[0]


def _fits(trace: Trace, norm: int, output: tuple[int | None, int | None]) -> bool:
    if trace.events.name_of(norm) not in TRAINING_FLAG or not operands(trace, norm):
        return False
    (batch, channels), dims = output, operands(trace, norm)[0].dims
    return len(dims) >= 3 and dims[0] == batch and channels in (None, dims[1])


def _fixed(trace: Trace, norm: int) -> bool:
    arguments = operands(trace, norm)
    return _flag(trace, norm) == "False" and all(operand.dims for operand in arguments[3:5])


def _trains(trace: Trace, norm: int) -> bool:
    return _flag(trace, norm) == "True"


def _flag(trace: Trace, norm: int) -> str:
    place, arguments = TRAINING_FLAG[trace.events.name_of(norm)], operands(trace, norm)
    return arguments[place].value if place < len(arguments) else ""


RULE = Rule(
    code="FUS005",
    name="conv-bn-not-folded",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
)
