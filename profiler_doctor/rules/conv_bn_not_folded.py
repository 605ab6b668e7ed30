"""Batch norms in evaluation mode run as a pass of their own after each convolution.

What it finds
    A batch norm with fixed statistics (training False) that is the very next op after a convolution with as many
    channels, in a run without any backward pass or optimizer step.

Why it costs
    With fixed statistics a batch norm is one multiplication and one addition per channel. Both can be put into the
    convolution's weights and bias once; run separately they read and write every activation again.

What to do
    `torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)` for each pair, `torch.jit.freeze`, or the freezing of
    `torch.compile` (`torch._inductor.config.freezing`). The results differ by rounding alone.

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
from profiler_doctor.analyzer.measures.convolutions import convolutions
from profiler_doctor.analyzer.measures.operands import operands
from profiler_doctor.analyzer.measures.ops import ops
from profiler_doctor.analyzer.measures.share import intervals_of, rows_in_window, share, trains, whole
from profiler_doctor.analyzer.measures.source import where_of
from profiler_doctor.analyzer.measures.window import window
from profiler_doctor.analyzer.trace import Trace

TRAINING_FLAG = {"aten::batch_norm": 5, "aten::_batch_norm_impl_index": 5, "aten::cudnn_batch_norm": 5}
"""Name → place of the flag among the arguments; the running statistics stand right before it."""


def find(trace: Trace, _: Limits) -> Iterable[Sighting]:
    """At most one finding, for all pairs of the window."""
    pairs = [] if trains(trace) else _pairs(trace)
    norms = rows_in_window(trace, [norm for _, norm in pairs])
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
            and _folds(trace, norm, _output(call.input.dims, call.weight.dims, call.transposed))
        ):
            found.append((call.row, norm))
    return found


def _output(given: Sequence[int], weight: Sequence[int], transposed: bool) -> tuple[int | None, int | None]:
    """Batch and channels of a convolution's result; a grouped transposed one's channels are not known."""
    batched = len(given) == len(weight)
    return given[0] if batched else None, None if transposed else weight[0]


def _folds(trace: Trace, norm: int, output: tuple[int | None, int | None]) -> bool:
    place = TRAINING_FLAG.get(trace.events.name_of(norm))
    arguments = operands(trace, norm)
    if place is None or len(arguments) <= place or arguments[place].value != "False":
        return False
    statistics, dims = arguments[3:5], arguments[0].dims
    batch, channels = output
    fits = len(dims) >= 3 and dims[0] == batch and channels in (None, dims[1])
    return fits and all(operand.dims for operand in statistics)


RULE = Rule(
    code="FUS005",
    name="conv-bn-not-folded",
    doc=__doc__,
    find=find,
    needs=(Has.OPS, Has.SHAPES),
)
