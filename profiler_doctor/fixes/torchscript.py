"""Run the model as a frozen TorchScript trace.

What it does: it records the ops of one call (`torch.jit.trace`), makes the weights constants of that graph
(`torch.jit.freeze`), and runs the graph without Python. Batch normalisation is folded on the way.

When it applies: inference of a model whose ops do not depend on the values it is given: a branch on data, a loop over a
length, a counter are recorded as they were in that one call: of a loop all its turns, so that another length needs
another trace. Each shape of inputs gets a trace of its own here, and the trial holds it against the model on other
values; in your own code nobody does. Forward hooks are not run.

How results may change: by rounding (up to 3e-7 in float32). Weights that change later do not reach the graph.

Source: https://docs.pytorch.org/docs/stable/generated/torch.jit.freeze.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Root
from profiler_doctor.fixes._engine import fits_inference, handed_over
from profiler_doctor.fixes._torchscript import frozen_trace, without_gradients


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    yield handed_over(root, lambda module, tensors: without_gradients(frozen_trace(module, tensors)), outside="traced")


FIX = Fix(
    name="torchscript",
    doc=__doc__,
    cures=("LCH001", "LCH002", "FUS005", "PYB006"),
    snippet="""\
with torch.no_grad():
    model = torch.jit.freeze(torch.jit.trace(model.eval(), example_inputs))
""",
    changes_numbers="by rounding (3e-7 in float32)",
    rank=6,
    applies=fits_inference,
    treat=_treat,
    freezes=True,
    excludes=ENGINE,
)
