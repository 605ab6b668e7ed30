"""Give a recurrent layer the whole sequence where a loop calls its cell for one time step after the other.

What it does: in the graph that torch.compile makes, which unrolls the loop, the calls of LSTMCell, GRUCell or RNNCell
that go on from each other's state become one call of the layer with the cell's own weights. The rest runs as it is, op
by op.

When it applies: all inputs are there before the first turn, at least four turns follow each other with nothing done to
the state in between, and only the last inner state of an LSTM is used. A cell of the user's own making is no such cell.

How results may change: by rounding.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Machine, Root
from profiler_doctor.fixes._compiling import rewritten
from profiler_doctor.fixes._recurrent_graph import Layering

NOTHING = "no loop over a cell of torch's own was found whose inputs are all there before its first turn"


def _applies(machine: Machine) -> str | None:
    return None if machine.has_root else "no module was called"


def _treat(root: Root) -> AbstractContextManager[Callable[..., Any]]:
    return rewritten(root, Layering(), NOTHING)


FIX = Fix(
    name="recurrent-layer",
    doc=__doc__,
    cures=("PYB006",),
    snippet="""\
layer = torch.nn.LSTM(cell.input_size, cell.hidden_size)  # or GRU, RNN
layer.weight_ih_l0, layer.weight_hh_l0 = cell.weight_ih, cell.weight_hh
layer.bias_ih_l0, layer.bias_hh_l0 = cell.bias_ih, cell.bias_hh
outputs, last = layer(x)  # for t in range(len(x)): h, c = cell(x[t], (h, c))
""",
    changes_numbers="by rounding",
    rank=1,
    applies=_applies,
    treat=_treat,
    excludes=ENGINE,
)
