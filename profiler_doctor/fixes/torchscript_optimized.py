"""Run the model as a TorchScript trace prepared for inference on this machine.

What it does: it records the ops of one call, freezes the weights into the graph, and lets
`torch.jit.optimize_for_inference` fold normalisations, lay weights out for the CPU's library and fuse ops.

When it applies: as for `torchscript`; convolutions gain most. The prepared graph is bound to the kind of device it was
made on and cannot be saved everywhere.

How results may change: by rounding (up to 1e-6 in float32). Weights that change later do not reach the graph.

Source: https://docs.pytorch.org/docs/stable/generated/torch.jit.optimize_for_inference.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from profiler_doctor.analyzer.kinds import ENGINE, Fix, Root
from profiler_doctor.fixes._engine import fits_inference, handed_over
from profiler_doctor.fixes._torchscript import frozen_trace, quiet, without_gradients


@contextmanager
def _treat(root: Root) -> Iterator[Callable[..., Any]]:
    yield handed_over(root, _prepared, outside="traced")


def _prepared(module: Any, tensors: tuple[Any, ...]) -> Callable[..., Any]:
    import torch

    frozen = frozen_trace(module, tensors)
    with quiet():
        return without_gradients(torch.jit.optimize_for_inference(frozen))


FIX = Fix(
    name="torchscript-optimized",
    doc=__doc__,
    cures=("LCH001", "FUS005", "LAY004"),
    snippet="""\
with torch.no_grad():
    frozen = torch.jit.freeze(torch.jit.trace(model.eval(), example_inputs))
    model = torch.jit.optimize_for_inference(frozen)
""",
    changes_numbers="by rounding (1e-6 in float32)",
    rank=6,
    applies=fits_inference,
    treat=_treat,
    freezes=True,
    variant_of="torchscript",
    excludes=ENGINE,
)
